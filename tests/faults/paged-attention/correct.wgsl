@group(0) @binding(0) var<storage, read> q : array<f32>;
@group(0) @binding(1) var<storage, read> keys : array<f32>;
@group(0) @binding(2) var<storage, read> values : array<f32>;
@group(0) @binding(3) var<storage, read> pages : array<i32>;
@group(0) @binding(4) var<storage, read> length : array<i32>;
@group(0) @binding(5) var<storage, read_write> out : array<f32>;

var<workgroup> scores : array<f32, 16>;

// Where head h's key or value of token t begins.
fn token(t : u32, h : u32) -> u32 {
  return ((u32(pages[t / 4u]) * 2u + h) * 4u + t % 4u) * 16u;
}

@compute @workgroup_size(16)
fn main(@builtin(workgroup_id) group : vec3<u32>, @builtin(local_invocation_id) local : vec3<u32>) {
  let h = group.x;
  let t = local.x;
  scores[t] = -1e30;
  if (t < u32(length[0])) {
    var dot = 0.0f;
    for (var n = 0u; n < 16u; n++) { dot += q[h * 16u + n] * keys[token(t, h) + n]; }
    scores[t] = dot * 0.25;
  }
  workgroupBarrier();
  var most = -1e30f;
  for (var k = 0u; k < 16u; k++) { most = max(most, scores[k]); }
  var total = 0.0f;
  var mixed = 0.0f;
  for (var k = 0u; k < 16u; k++) {
    let weight = exp(scores[k] - most);
    total += weight;
    mixed += weight * values[token(k, h) + local.x];
  }
  out[h * 16u + local.x] = mixed / total;
}
