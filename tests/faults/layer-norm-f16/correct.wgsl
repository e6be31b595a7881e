enable f16;

@group(0) @binding(0) var<storage, read> x : array<f16>;
@group(0) @binding(1) var<storage, read> weight : array<f16>;
@group(0) @binding(2) var<storage, read> bias : array<f16>;
@group(0) @binding(3) var<storage, read_write> out : array<f16>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group : vec3<u32>, @builtin(local_invocation_id) local : vec3<u32>) {
  let row = group.x * 64u;
  var total = 0.0f;
  for (var k = 0u; k < 64u; k++) { total += f32(x[row + k]); }
  let mean = total / 64.0;
  var square = 0.0f;
  for (var k = 0u; k < 64u; k++) {
    let centred = f32(x[row + k]) - mean;
    square += centred * centred;
  }
  let normalized = f16((f32(x[row + local.x]) - mean) * inverseSqrt(square / 64.0 + 1e-5));
  out[row + local.x] = normalized * weight[local.x] + bias[local.x];
}
