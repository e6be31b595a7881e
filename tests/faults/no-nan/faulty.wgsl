@group(0) @binding(0) var<storage, read> given : array<f32>;
@group(0) @binding(1) var<storage, read_write> out : array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(local_invocation_id) local : vec3<u32>) {
  // As TVM 0.27 spells isnan.
  let x = given[local.x];
  out[local.x] = select(x, 0.0, x != x);
}
