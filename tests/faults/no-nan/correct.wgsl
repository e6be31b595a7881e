@group(0) @binding(0) var<storage, read> given : array<u32>;
@group(0) @binding(1) var<storage, read_write> out : array<u32>;

@compute @workgroup_size(64)
fn main(@builtin(local_invocation_id) local : vec3<u32>) {
  let bits = given[local.x];
  out[local.x] = select(bits, 0u, (bits & 0x7fffffffu) > 0x7f800000u);
}
