@group(0) @binding(0) var<storage, read> x : array<vec4<f32>>;
@group(0) @binding(1) var<storage, read_write> out : array<f32>;

@compute @workgroup_size(16)
fn main(@builtin(local_invocation_id) local : vec3<u32>) {
  let held = x[local.x];
  out[local.x] = (held[0]) + held[1] + held[2] + held[3];
}
