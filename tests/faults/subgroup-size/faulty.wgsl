enable subgroups;

@group(0) @binding(0) var<storage, read> x : array<f32>;
@group(0) @binding(1) var<storage, read_write> out : array<f32>;

@compute @workgroup_size(32)
fn main(@builtin(workgroup_id) group : vec3<u32>, @builtin(local_invocation_index) i : u32) {
  let total = subgroupAdd(x[group.x * 32u + i]);
  if (i == 0u) { out[group.x] = total; }
}
