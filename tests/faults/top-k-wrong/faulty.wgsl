@group(0) @binding(0) var<storage, read> logits : array<f32>;
@group(0) @binding(1) var<storage, read_write> experts : array<i32>;

@compute @workgroup_size(16)
fn main(@builtin(local_invocation_id) local : vec3<u32>) {
  let row = local.x * 8u;
  var taken = 8u;
  for (var k = 0u; k < 2u; k++) {
    var best = -1e30f;
    var place = 0u;
    for (var e = 0u; e < 8u; e++) {
      if (e != taken && logits[row + e] > best) {
        best = logits[row + e];
        place = e;
      }
    }
    experts[local.x * 2u + k] = i32(place);
    taken = 8u;
  }
}
