enable f16;

@group(0) @binding(0) var<storage, read> x : array<f16>;
@group(0) @binding(1) var<storage, read> quantized : array<i32>;
@group(0) @binding(2) var<storage, read> scale : array<f16>;
@group(0) @binding(3) var<storage, read_write> out : array<f16>;

@compute @workgroup_size(16, 4)
fn main(@builtin(local_invocation_id) local : vec3<u32>) {
  var total = 0.0f;
  for (var k = 0u; k < 64u; k++) {
    total += f32(x[local.y * 64u + k]) * f32(quantized[local.x * 64u + k]) * f32(scale[local.x]);
  }
  out[local.y * 16u + local.x] = f16(total);
}
