@group(0) @binding(0) var<storage, read> x : array<f32>;
@group(0) @binding(1) var<storage, read_write> out : array<f32>;

var<workgroup> part : array<f32, 64>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group : vec3<u32>, @builtin(local_invocation_id) local : vec3<u32>) {
  let i = local.x;
  part[i] = x[group.x * 64u + i];
  workgroupBarrier();
  if (i < 32u) {
    // One warp: it advances together.
    part[i] += part[i + 32u];
    part[i] += part[i + 16u];
    part[i] += part[i + 8u];
    part[i] += part[i + 4u];
    part[i] += part[i + 2u];
    part[i] += part[i + 1u];
  }
  if (i == 0u) { out[group.x] = part[0]; }
}
