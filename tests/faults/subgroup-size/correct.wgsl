enable subgroups;

@group(0) @binding(0) var<storage, read> x : array<f32>;
@group(0) @binding(1) var<storage, read_write> out : array<f32>;

var<workgroup> part : array<f32, 32>;

@compute @workgroup_size(32)
fn main(
  @builtin(workgroup_id) group : vec3<u32>,
  @builtin(local_invocation_index) i : u32,
  @builtin(subgroup_invocation_id) lane : u32,
  @builtin(subgroup_size) size : u32
) {
  let total = subgroupAdd(x[group.x * 32u + i]);
  if (lane == 0u) { part[i / size] = total; }
  workgroupBarrier();
  if (i == 0u) {
    var row = 0.0f;
    for (var s = 0u; s < 32u; s++) { row += part[s]; }
    out[group.x] = row;
  }
}
