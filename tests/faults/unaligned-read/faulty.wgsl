@group(0) @binding(0) var<storage, read> x : array<vec4<f32>>;
@group(0) @binding(1) var<storage, read_write> out : array<vec4<f32>>;

@compute @workgroup_size(64)
fn main(@builtin(local_invocation_id) local : vec3<u32>) {
  out[local.x] = x[(3u + 4u * local.x) / 4u];
}
