@group(0) @binding(0) var<storage, read> x : array<f32>;
@group(0) @binding(1) var<storage, read> y : array<f32>;
@group(0) @binding(2) var<storage, read_write> out : array<f32>;

struct Parameters { offset : i32 }
@group(0) @binding(3) var<uniform> parameters : Parameters;

@compute @workgroup_size(64)
fn main(@builtin(local_invocation_id) local : vec3<u32>) {
  let i = u32(parameters.offset) + local.x;
  out[i] = x[i] + y[i];
}
