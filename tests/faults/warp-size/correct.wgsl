@group(0) @binding(0) var<storage, read> x : array<f32>;
@group(0) @binding(1) var<storage, read_write> out : array<f32>;

var<workgroup> part : array<f32, 64>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group : vec3<u32>, @builtin(local_invocation_id) local : vec3<u32>) {
  let i = local.x;
  part[i] = x[group.x * 64u + i];
  workgroupBarrier();
  for (var step = 32u; step > 0u; step /= 2u) {
    if (i < step) { part[i] += part[i + step]; }
    workgroupBarrier();
  }
  if (i == 0u) { out[group.x] = part[0]; }
}
