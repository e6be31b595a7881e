@group(0) @binding(0) var<storage, read> weights : array<f32>;
@group(0) @binding(1) var<storage, read> values : array<f32>;
@group(0) @binding(2) var<storage, read_write> out : array<f32>;

// As wide as a head; made for heads of eight.
var<workgroup> tile : array<f32, 2>;

@compute @workgroup_size(32)
fn main(@builtin(local_invocation_id) local : vec3<u32>) {
  let j = local.x;
  for (var k = 0u; k < 16u; k += 4u) {
    if (j < 8u && j < 2u) {
      for (var t = 0u; t < 4u; t++) { tile[j] += weights[k + t] * values[(k + t) * 2u + j]; }
    }
    workgroupBarrier();
  }
  if (j < 2u) { out[j] = tile[j]; }
}
