@group(0) @binding(0) var<storage, read> x : array<f32>;
@group(0) @binding(1) var<storage, read_write> out : array<f32>;

var<workgroup> row : array<f32, 128>;

@compute @workgroup_size(128)
fn main(@builtin(workgroup_id) group : vec3<u32>, @builtin(local_invocation_id) local : vec3<u32>) {
  row[local.x] = x[group.x * 128u + local.x];
  workgroupBarrier();
  out[group.x * 128u + local.x] = row[127u - local.x];
}
