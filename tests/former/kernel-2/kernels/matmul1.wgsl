@group(0) @binding(0) var<storage, read> lv2_ptr : array<f32>;
@group(0) @binding(1) var<storage, read_write> matmul_ptr : array<f32>;
@group(0) @binding(2) var<storage, read> w2_ptr : array<f32>;

struct PODArgs {
  packGridDimX: u32
}
@group(0) @binding(3) var<uniform> podArgs : PODArgs;

var<workgroup> lv2_reindex_pad_shared : array<f32, 256>;
var<workgroup> w2_reindex_pad_shared : array<f32, 256>;
@compute @workgroup_size(8, 8, 1)
fn matmul1_kernel(
  @builtin(workgroup_id) blockIdx : vec3<u32>,
  @builtin(num_workgroups) gridDim : vec3<u32>,
  @builtin(local_invocation_id) threadIdx : vec3<u32>
) {
  if (blockIdx.z * gridDim.x + blockIdx.x >= podArgs.packGridDimX) { return; }
  var matmul_reindex_pad_local : array<f32, 16>;
  let v__1 : i32 = i32(blockIdx.z * gridDim.x + blockIdx.x);
  for (var var_1 : i32 = 0i; var_1 < 1i; var_1++) {
    matmul_reindex_pad_local[0i] = 0.000000e+00f;
    matmul_reindex_pad_local[1i] = 0.000000e+00f;
    matmul_reindex_pad_local[2i] = 0.000000e+00f;
    matmul_reindex_pad_local[3i] = 0.000000e+00f;
    matmul_reindex_pad_local[4i] = 0.000000e+00f;
    matmul_reindex_pad_local[5i] = 0.000000e+00f;
    matmul_reindex_pad_local[6i] = 0.000000e+00f;
    matmul_reindex_pad_local[7i] = 0.000000e+00f;
    matmul_reindex_pad_local[8i] = 0.000000e+00f;
    matmul_reindex_pad_local[9i] = 0.000000e+00f;
    matmul_reindex_pad_local[10i] = 0.000000e+00f;
    matmul_reindex_pad_local[11i] = 0.000000e+00f;
    matmul_reindex_pad_local[12i] = 0.000000e+00f;
    matmul_reindex_pad_local[13i] = 0.000000e+00f;
    matmul_reindex_pad_local[14i] = 0.000000e+00f;
    matmul_reindex_pad_local[15i] = 0.000000e+00f;
    let cse_v4 : i32 = (i32(threadIdx.y) * 4i);
    for (var ax3_0 : i32 = 0i; ax3_0 < 4i; ax3_0++) {
      let cse_v1 : i32 = (i32(threadIdx.x)>>1u);
      let cse_v2 : i32 = (i32(threadIdx.x) & 1i);
      let cse_v3 : i32 = (i32(threadIdx.y) * 32i);
      let cse_v6 : i32 = ((i32(threadIdx.y) * 2i) + (i32(threadIdx.x)>>2u));
      let cse_v7 : i32 = ((i32(threadIdx.y) * 32i) + (i32(threadIdx.x) * 4i));
      let cse_v74 : i32 = ((((i32(threadIdx.y) * 128i) + ((i32(threadIdx.x)>>1u) * 32i)) + (ax3_0 * 8i)) + ((i32(threadIdx.x) & 1i) * 4i));
      workgroupBarrier();
      var condval : f32;
      if ((((i32(threadIdx.y) * 2i) + (i32(threadIdx.x)>>2u)) < 3i)) {
        condval = lv2_ptr[((((i32(threadIdx.y) * 128i) + ((i32(threadIdx.x)>>1u) * 32i)) + (ax3_0 * 8i)) + ((i32(threadIdx.x) & 1i) * 4i))];
} else {
        condval = 0.000000e+00f;
}
      lv2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + (i32(threadIdx.x) * 4i))] = condval;
      let cse_v71 : i32 = (((i32(threadIdx.y) * 32i) + (i32(threadIdx.x) * 4i)) + 1i);
      var condval_1 : f32;
      if ((((i32(threadIdx.y) * 2i) + (i32(threadIdx.x)>>2u)) < 3i)) {
        condval_1 = lv2_ptr[(((((i32(threadIdx.y) * 128i) + ((i32(threadIdx.x)>>1u) * 32i)) + (ax3_0 * 8i)) + ((i32(threadIdx.x) & 1i) * 4i)) + 1i)];
} else {
        condval_1 = 0.000000e+00f;
}
      lv2_reindex_pad_shared[(((i32(threadIdx.y) * 32i) + (i32(threadIdx.x) * 4i)) + 1i)] = condval_1;
      let cse_v72 : i32 = (((i32(threadIdx.y) * 32i) + (i32(threadIdx.x) * 4i)) + 2i);
      var condval_2 : f32;
      if ((((i32(threadIdx.y) * 2i) + (i32(threadIdx.x)>>2u)) < 3i)) {
        condval_2 = lv2_ptr[(((((i32(threadIdx.y) * 128i) + ((i32(threadIdx.x)>>1u) * 32i)) + (ax3_0 * 8i)) + ((i32(threadIdx.x) & 1i) * 4i)) + 2i)];
} else {
        condval_2 = 0.000000e+00f;
}
      lv2_reindex_pad_shared[(((i32(threadIdx.y) * 32i) + (i32(threadIdx.x) * 4i)) + 2i)] = condval_2;
      let cse_v73 : i32 = (((i32(threadIdx.y) * 32i) + (i32(threadIdx.x) * 4i)) + 3i);
      var condval_3 : f32;
      if ((((i32(threadIdx.y) * 2i) + (i32(threadIdx.x)>>2u)) < 3i)) {
        condval_3 = lv2_ptr[(((((i32(threadIdx.y) * 128i) + ((i32(threadIdx.x)>>1u) * 32i)) + (ax3_0 * 8i)) + ((i32(threadIdx.x) & 1i) * 4i)) + 3i)];
} else {
        condval_3 = 0.000000e+00f;
}
      lv2_reindex_pad_shared[(((i32(threadIdx.y) * 32i) + (i32(threadIdx.x) * 4i)) + 3i)] = condval_3;
      let cse_v75 : i32 = ((((ax3_0 * 128i) + ((i32(threadIdx.x) & 1i) * 64i)) + (i32(threadIdx.y) * 4i)) + (i32(threadIdx.x)>>1u));
      var condval_4 : f32;
      if ((i32(threadIdx.y) < 4i)) {
        condval_4 = w2_ptr[((((ax3_0 * 128i) + ((i32(threadIdx.x) & 1i) * 64i)) + (i32(threadIdx.y) * 4i)) + (i32(threadIdx.x)>>1u))];
} else {
        condval_4 = 0.000000e+00f;
}
      w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + (i32(threadIdx.x) * 4i))] = condval_4;
      var condval_5 : f32;
      if ((i32(threadIdx.y) < 4i)) {
        condval_5 = w2_ptr[(((((ax3_0 * 128i) + ((i32(threadIdx.x) & 1i) * 64i)) + (i32(threadIdx.y) * 4i)) + (i32(threadIdx.x)>>1u)) + 16i)];
} else {
        condval_5 = 0.000000e+00f;
}
      w2_reindex_pad_shared[(((i32(threadIdx.y) * 32i) + (i32(threadIdx.x) * 4i)) + 1i)] = condval_5;
      var condval_6 : f32;
      if ((i32(threadIdx.y) < 4i)) {
        condval_6 = w2_ptr[(((((ax3_0 * 128i) + ((i32(threadIdx.x) & 1i) * 64i)) + (i32(threadIdx.y) * 4i)) + (i32(threadIdx.x)>>1u)) + 32i)];
} else {
        condval_6 = 0.000000e+00f;
}
      w2_reindex_pad_shared[(((i32(threadIdx.y) * 32i) + (i32(threadIdx.x) * 4i)) + 2i)] = condval_6;
      var condval_7 : f32;
      if ((i32(threadIdx.y) < 4i)) {
        condval_7 = w2_ptr[(((((ax3_0 * 128i) + ((i32(threadIdx.x) & 1i) * 64i)) + (i32(threadIdx.y) * 4i)) + (i32(threadIdx.x)>>1u)) + 48i)];
} else {
        condval_7 = 0.000000e+00f;
}
      w2_reindex_pad_shared[(((i32(threadIdx.y) * 32i) + (i32(threadIdx.x) * 4i)) + 3i)] = condval_7;
      let cse_v5 : i32 = (i32(threadIdx.x) * 32i);
      workgroupBarrier();
      matmul_reindex_pad_local[0i] = fma(lv2_reindex_pad_shared[(i32(threadIdx.x) * 32i)], w2_reindex_pad_shared[(i32(threadIdx.y) * 32i)], matmul_reindex_pad_local[0i]);
      let cse_v8 : i32 = ((i32(threadIdx.y) * 32i) + 8i);
      matmul_reindex_pad_local[1i] = fma(lv2_reindex_pad_shared[(i32(threadIdx.x) * 32i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 8i)], matmul_reindex_pad_local[1i]);
      let cse_v9 : i32 = ((i32(threadIdx.y) * 32i) + 16i);
      matmul_reindex_pad_local[2i] = fma(lv2_reindex_pad_shared[(i32(threadIdx.x) * 32i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 16i)], matmul_reindex_pad_local[2i]);
      let cse_v10 : i32 = ((i32(threadIdx.y) * 32i) + 24i);
      matmul_reindex_pad_local[3i] = fma(lv2_reindex_pad_shared[(i32(threadIdx.x) * 32i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 24i)], matmul_reindex_pad_local[3i]);
      let cse_v11 : i32 = ((i32(threadIdx.x) * 32i) + 8i);
      matmul_reindex_pad_local[4i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 8i)], w2_reindex_pad_shared[(i32(threadIdx.y) * 32i)], matmul_reindex_pad_local[4i]);
      matmul_reindex_pad_local[5i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 8i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 8i)], matmul_reindex_pad_local[5i]);
      matmul_reindex_pad_local[6i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 8i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 16i)], matmul_reindex_pad_local[6i]);
      matmul_reindex_pad_local[7i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 8i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 24i)], matmul_reindex_pad_local[7i]);
      let cse_v12 : i32 = ((i32(threadIdx.x) * 32i) + 16i);
      matmul_reindex_pad_local[8i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 16i)], w2_reindex_pad_shared[(i32(threadIdx.y) * 32i)], matmul_reindex_pad_local[8i]);
      matmul_reindex_pad_local[9i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 16i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 8i)], matmul_reindex_pad_local[9i]);
      matmul_reindex_pad_local[10i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 16i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 16i)], matmul_reindex_pad_local[10i]);
      matmul_reindex_pad_local[11i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 16i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 24i)], matmul_reindex_pad_local[11i]);
      let cse_v13 : i32 = ((i32(threadIdx.x) * 32i) + 24i);
      matmul_reindex_pad_local[12i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 24i)], w2_reindex_pad_shared[(i32(threadIdx.y) * 32i)], matmul_reindex_pad_local[12i]);
      matmul_reindex_pad_local[13i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 24i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 8i)], matmul_reindex_pad_local[13i]);
      matmul_reindex_pad_local[14i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 24i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 16i)], matmul_reindex_pad_local[14i]);
      matmul_reindex_pad_local[15i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 24i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 24i)], matmul_reindex_pad_local[15i]);
      let cse_v14 : i32 = ((i32(threadIdx.x) * 32i) + 1i);
      let cse_v15 : i32 = ((i32(threadIdx.y) * 32i) + 1i);
      matmul_reindex_pad_local[0i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 1i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 1i)], matmul_reindex_pad_local[0i]);
      let cse_v16 : i32 = ((i32(threadIdx.y) * 32i) + 9i);
      matmul_reindex_pad_local[1i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 1i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 9i)], matmul_reindex_pad_local[1i]);
      let cse_v17 : i32 = ((i32(threadIdx.y) * 32i) + 17i);
      matmul_reindex_pad_local[2i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 1i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 17i)], matmul_reindex_pad_local[2i]);
      let cse_v18 : i32 = ((i32(threadIdx.y) * 32i) + 25i);
      matmul_reindex_pad_local[3i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 1i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 25i)], matmul_reindex_pad_local[3i]);
      let cse_v19 : i32 = ((i32(threadIdx.x) * 32i) + 9i);
      matmul_reindex_pad_local[4i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 9i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 1i)], matmul_reindex_pad_local[4i]);
      matmul_reindex_pad_local[5i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 9i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 9i)], matmul_reindex_pad_local[5i]);
      matmul_reindex_pad_local[6i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 9i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 17i)], matmul_reindex_pad_local[6i]);
      matmul_reindex_pad_local[7i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 9i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 25i)], matmul_reindex_pad_local[7i]);
      let cse_v20 : i32 = ((i32(threadIdx.x) * 32i) + 17i);
      matmul_reindex_pad_local[8i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 17i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 1i)], matmul_reindex_pad_local[8i]);
      matmul_reindex_pad_local[9i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 17i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 9i)], matmul_reindex_pad_local[9i]);
      matmul_reindex_pad_local[10i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 17i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 17i)], matmul_reindex_pad_local[10i]);
      matmul_reindex_pad_local[11i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 17i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 25i)], matmul_reindex_pad_local[11i]);
      let cse_v21 : i32 = ((i32(threadIdx.x) * 32i) + 25i);
      matmul_reindex_pad_local[12i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 25i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 1i)], matmul_reindex_pad_local[12i]);
      matmul_reindex_pad_local[13i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 25i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 9i)], matmul_reindex_pad_local[13i]);
      matmul_reindex_pad_local[14i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 25i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 17i)], matmul_reindex_pad_local[14i]);
      matmul_reindex_pad_local[15i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 25i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 25i)], matmul_reindex_pad_local[15i]);
      let cse_v22 : i32 = ((i32(threadIdx.x) * 32i) + 2i);
      let cse_v23 : i32 = ((i32(threadIdx.y) * 32i) + 2i);
      matmul_reindex_pad_local[0i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 2i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 2i)], matmul_reindex_pad_local[0i]);
      let cse_v24 : i32 = ((i32(threadIdx.y) * 32i) + 10i);
      matmul_reindex_pad_local[1i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 2i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 10i)], matmul_reindex_pad_local[1i]);
      let cse_v25 : i32 = ((i32(threadIdx.y) * 32i) + 18i);
      matmul_reindex_pad_local[2i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 2i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 18i)], matmul_reindex_pad_local[2i]);
      let cse_v26 : i32 = ((i32(threadIdx.y) * 32i) + 26i);
      matmul_reindex_pad_local[3i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 2i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 26i)], matmul_reindex_pad_local[3i]);
      let cse_v27 : i32 = ((i32(threadIdx.x) * 32i) + 10i);
      matmul_reindex_pad_local[4i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 10i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 2i)], matmul_reindex_pad_local[4i]);
      matmul_reindex_pad_local[5i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 10i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 10i)], matmul_reindex_pad_local[5i]);
      matmul_reindex_pad_local[6i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 10i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 18i)], matmul_reindex_pad_local[6i]);
      matmul_reindex_pad_local[7i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 10i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 26i)], matmul_reindex_pad_local[7i]);
      let cse_v28 : i32 = ((i32(threadIdx.x) * 32i) + 18i);
      matmul_reindex_pad_local[8i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 18i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 2i)], matmul_reindex_pad_local[8i]);
      matmul_reindex_pad_local[9i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 18i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 10i)], matmul_reindex_pad_local[9i]);
      matmul_reindex_pad_local[10i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 18i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 18i)], matmul_reindex_pad_local[10i]);
      matmul_reindex_pad_local[11i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 18i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 26i)], matmul_reindex_pad_local[11i]);
      let cse_v29 : i32 = ((i32(threadIdx.x) * 32i) + 26i);
      matmul_reindex_pad_local[12i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 26i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 2i)], matmul_reindex_pad_local[12i]);
      matmul_reindex_pad_local[13i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 26i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 10i)], matmul_reindex_pad_local[13i]);
      matmul_reindex_pad_local[14i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 26i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 18i)], matmul_reindex_pad_local[14i]);
      matmul_reindex_pad_local[15i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 26i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 26i)], matmul_reindex_pad_local[15i]);
      let cse_v30 : i32 = ((i32(threadIdx.x) * 32i) + 3i);
      let cse_v31 : i32 = ((i32(threadIdx.y) * 32i) + 3i);
      matmul_reindex_pad_local[0i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 3i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 3i)], matmul_reindex_pad_local[0i]);
      let cse_v32 : i32 = ((i32(threadIdx.y) * 32i) + 11i);
      matmul_reindex_pad_local[1i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 3i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 11i)], matmul_reindex_pad_local[1i]);
      let cse_v33 : i32 = ((i32(threadIdx.y) * 32i) + 19i);
      matmul_reindex_pad_local[2i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 3i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 19i)], matmul_reindex_pad_local[2i]);
      let cse_v34 : i32 = ((i32(threadIdx.y) * 32i) + 27i);
      matmul_reindex_pad_local[3i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 3i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 27i)], matmul_reindex_pad_local[3i]);
      let cse_v35 : i32 = ((i32(threadIdx.x) * 32i) + 11i);
      matmul_reindex_pad_local[4i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 11i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 3i)], matmul_reindex_pad_local[4i]);
      matmul_reindex_pad_local[5i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 11i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 11i)], matmul_reindex_pad_local[5i]);
      matmul_reindex_pad_local[6i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 11i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 19i)], matmul_reindex_pad_local[6i]);
      matmul_reindex_pad_local[7i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 11i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 27i)], matmul_reindex_pad_local[7i]);
      let cse_v36 : i32 = ((i32(threadIdx.x) * 32i) + 19i);
      matmul_reindex_pad_local[8i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 19i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 3i)], matmul_reindex_pad_local[8i]);
      matmul_reindex_pad_local[9i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 19i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 11i)], matmul_reindex_pad_local[9i]);
      matmul_reindex_pad_local[10i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 19i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 19i)], matmul_reindex_pad_local[10i]);
      matmul_reindex_pad_local[11i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 19i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 27i)], matmul_reindex_pad_local[11i]);
      let cse_v37 : i32 = ((i32(threadIdx.x) * 32i) + 27i);
      matmul_reindex_pad_local[12i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 27i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 3i)], matmul_reindex_pad_local[12i]);
      matmul_reindex_pad_local[13i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 27i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 11i)], matmul_reindex_pad_local[13i]);
      matmul_reindex_pad_local[14i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 27i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 19i)], matmul_reindex_pad_local[14i]);
      matmul_reindex_pad_local[15i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 27i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 27i)], matmul_reindex_pad_local[15i]);
      let cse_v38 : i32 = ((i32(threadIdx.x) * 32i) + 4i);
      let cse_v39 : i32 = ((i32(threadIdx.y) * 32i) + 4i);
      matmul_reindex_pad_local[0i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 4i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 4i)], matmul_reindex_pad_local[0i]);
      let cse_v40 : i32 = ((i32(threadIdx.y) * 32i) + 12i);
      matmul_reindex_pad_local[1i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 4i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 12i)], matmul_reindex_pad_local[1i]);
      let cse_v41 : i32 = ((i32(threadIdx.y) * 32i) + 20i);
      matmul_reindex_pad_local[2i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 4i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 20i)], matmul_reindex_pad_local[2i]);
      let cse_v42 : i32 = ((i32(threadIdx.y) * 32i) + 28i);
      matmul_reindex_pad_local[3i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 4i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 28i)], matmul_reindex_pad_local[3i]);
      let cse_v43 : i32 = ((i32(threadIdx.x) * 32i) + 12i);
      matmul_reindex_pad_local[4i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 12i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 4i)], matmul_reindex_pad_local[4i]);
      matmul_reindex_pad_local[5i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 12i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 12i)], matmul_reindex_pad_local[5i]);
      matmul_reindex_pad_local[6i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 12i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 20i)], matmul_reindex_pad_local[6i]);
      matmul_reindex_pad_local[7i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 12i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 28i)], matmul_reindex_pad_local[7i]);
      let cse_v44 : i32 = ((i32(threadIdx.x) * 32i) + 20i);
      matmul_reindex_pad_local[8i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 20i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 4i)], matmul_reindex_pad_local[8i]);
      matmul_reindex_pad_local[9i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 20i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 12i)], matmul_reindex_pad_local[9i]);
      matmul_reindex_pad_local[10i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 20i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 20i)], matmul_reindex_pad_local[10i]);
      matmul_reindex_pad_local[11i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 20i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 28i)], matmul_reindex_pad_local[11i]);
      let cse_v45 : i32 = ((i32(threadIdx.x) * 32i) + 28i);
      matmul_reindex_pad_local[12i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 28i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 4i)], matmul_reindex_pad_local[12i]);
      matmul_reindex_pad_local[13i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 28i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 12i)], matmul_reindex_pad_local[13i]);
      matmul_reindex_pad_local[14i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 28i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 20i)], matmul_reindex_pad_local[14i]);
      matmul_reindex_pad_local[15i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 28i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 28i)], matmul_reindex_pad_local[15i]);
      let cse_v46 : i32 = ((i32(threadIdx.x) * 32i) + 5i);
      let cse_v47 : i32 = ((i32(threadIdx.y) * 32i) + 5i);
      matmul_reindex_pad_local[0i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 5i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 5i)], matmul_reindex_pad_local[0i]);
      let cse_v48 : i32 = ((i32(threadIdx.y) * 32i) + 13i);
      matmul_reindex_pad_local[1i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 5i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 13i)], matmul_reindex_pad_local[1i]);
      let cse_v49 : i32 = ((i32(threadIdx.y) * 32i) + 21i);
      matmul_reindex_pad_local[2i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 5i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 21i)], matmul_reindex_pad_local[2i]);
      let cse_v50 : i32 = ((i32(threadIdx.y) * 32i) + 29i);
      matmul_reindex_pad_local[3i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 5i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 29i)], matmul_reindex_pad_local[3i]);
      let cse_v51 : i32 = ((i32(threadIdx.x) * 32i) + 13i);
      matmul_reindex_pad_local[4i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 13i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 5i)], matmul_reindex_pad_local[4i]);
      matmul_reindex_pad_local[5i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 13i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 13i)], matmul_reindex_pad_local[5i]);
      matmul_reindex_pad_local[6i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 13i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 21i)], matmul_reindex_pad_local[6i]);
      matmul_reindex_pad_local[7i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 13i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 29i)], matmul_reindex_pad_local[7i]);
      let cse_v52 : i32 = ((i32(threadIdx.x) * 32i) + 21i);
      matmul_reindex_pad_local[8i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 21i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 5i)], matmul_reindex_pad_local[8i]);
      matmul_reindex_pad_local[9i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 21i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 13i)], matmul_reindex_pad_local[9i]);
      matmul_reindex_pad_local[10i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 21i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 21i)], matmul_reindex_pad_local[10i]);
      matmul_reindex_pad_local[11i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 21i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 29i)], matmul_reindex_pad_local[11i]);
      let cse_v53 : i32 = ((i32(threadIdx.x) * 32i) + 29i);
      matmul_reindex_pad_local[12i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 29i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 5i)], matmul_reindex_pad_local[12i]);
      matmul_reindex_pad_local[13i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 29i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 13i)], matmul_reindex_pad_local[13i]);
      matmul_reindex_pad_local[14i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 29i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 21i)], matmul_reindex_pad_local[14i]);
      matmul_reindex_pad_local[15i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 29i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 29i)], matmul_reindex_pad_local[15i]);
      let cse_v54 : i32 = ((i32(threadIdx.x) * 32i) + 6i);
      let cse_v55 : i32 = ((i32(threadIdx.y) * 32i) + 6i);
      matmul_reindex_pad_local[0i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 6i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 6i)], matmul_reindex_pad_local[0i]);
      let cse_v56 : i32 = ((i32(threadIdx.y) * 32i) + 14i);
      matmul_reindex_pad_local[1i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 6i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 14i)], matmul_reindex_pad_local[1i]);
      let cse_v57 : i32 = ((i32(threadIdx.y) * 32i) + 22i);
      matmul_reindex_pad_local[2i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 6i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 22i)], matmul_reindex_pad_local[2i]);
      let cse_v58 : i32 = ((i32(threadIdx.y) * 32i) + 30i);
      matmul_reindex_pad_local[3i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 6i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 30i)], matmul_reindex_pad_local[3i]);
      let cse_v59 : i32 = ((i32(threadIdx.x) * 32i) + 14i);
      matmul_reindex_pad_local[4i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 14i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 6i)], matmul_reindex_pad_local[4i]);
      matmul_reindex_pad_local[5i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 14i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 14i)], matmul_reindex_pad_local[5i]);
      matmul_reindex_pad_local[6i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 14i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 22i)], matmul_reindex_pad_local[6i]);
      matmul_reindex_pad_local[7i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 14i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 30i)], matmul_reindex_pad_local[7i]);
      let cse_v60 : i32 = ((i32(threadIdx.x) * 32i) + 22i);
      matmul_reindex_pad_local[8i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 22i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 6i)], matmul_reindex_pad_local[8i]);
      matmul_reindex_pad_local[9i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 22i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 14i)], matmul_reindex_pad_local[9i]);
      matmul_reindex_pad_local[10i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 22i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 22i)], matmul_reindex_pad_local[10i]);
      matmul_reindex_pad_local[11i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 22i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 30i)], matmul_reindex_pad_local[11i]);
      let cse_v61 : i32 = ((i32(threadIdx.x) * 32i) + 30i);
      matmul_reindex_pad_local[12i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 30i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 6i)], matmul_reindex_pad_local[12i]);
      matmul_reindex_pad_local[13i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 30i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 14i)], matmul_reindex_pad_local[13i]);
      matmul_reindex_pad_local[14i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 30i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 22i)], matmul_reindex_pad_local[14i]);
      matmul_reindex_pad_local[15i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 30i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 30i)], matmul_reindex_pad_local[15i]);
      let cse_v62 : i32 = ((i32(threadIdx.x) * 32i) + 7i);
      let cse_v63 : i32 = ((i32(threadIdx.y) * 32i) + 7i);
      matmul_reindex_pad_local[0i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 7i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 7i)], matmul_reindex_pad_local[0i]);
      let cse_v64 : i32 = ((i32(threadIdx.y) * 32i) + 15i);
      matmul_reindex_pad_local[1i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 7i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 15i)], matmul_reindex_pad_local[1i]);
      let cse_v65 : i32 = ((i32(threadIdx.y) * 32i) + 23i);
      matmul_reindex_pad_local[2i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 7i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 23i)], matmul_reindex_pad_local[2i]);
      let cse_v66 : i32 = ((i32(threadIdx.y) * 32i) + 31i);
      matmul_reindex_pad_local[3i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 7i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 31i)], matmul_reindex_pad_local[3i]);
      let cse_v67 : i32 = ((i32(threadIdx.x) * 32i) + 15i);
      matmul_reindex_pad_local[4i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 15i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 7i)], matmul_reindex_pad_local[4i]);
      matmul_reindex_pad_local[5i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 15i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 15i)], matmul_reindex_pad_local[5i]);
      matmul_reindex_pad_local[6i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 15i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 23i)], matmul_reindex_pad_local[6i]);
      matmul_reindex_pad_local[7i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 15i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 31i)], matmul_reindex_pad_local[7i]);
      let cse_v68 : i32 = ((i32(threadIdx.x) * 32i) + 23i);
      matmul_reindex_pad_local[8i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 23i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 7i)], matmul_reindex_pad_local[8i]);
      matmul_reindex_pad_local[9i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 23i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 15i)], matmul_reindex_pad_local[9i]);
      matmul_reindex_pad_local[10i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 23i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 23i)], matmul_reindex_pad_local[10i]);
      matmul_reindex_pad_local[11i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 23i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 31i)], matmul_reindex_pad_local[11i]);
      let cse_v69 : i32 = ((i32(threadIdx.x) * 32i) + 31i);
      matmul_reindex_pad_local[12i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 31i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 7i)], matmul_reindex_pad_local[12i]);
      matmul_reindex_pad_local[13i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 31i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 15i)], matmul_reindex_pad_local[13i]);
      matmul_reindex_pad_local[14i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 31i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 23i)], matmul_reindex_pad_local[14i]);
      matmul_reindex_pad_local[15i] = fma(lv2_reindex_pad_shared[((i32(threadIdx.x) * 32i) + 31i)], w2_reindex_pad_shared[((i32(threadIdx.y) * 32i) + 31i)], matmul_reindex_pad_local[15i]);
    }
    let cse_v70 : i32 = ((i32(threadIdx.x) * 64i) + (i32(threadIdx.y) * 4i));
    if ((i32(threadIdx.x) < 2i) && (i32(threadIdx.y) < 4i)) {
      matmul_ptr[((i32(threadIdx.x) * 64i) + (i32(threadIdx.y) * 4i))] = matmul_reindex_pad_local[0i];
    }
    if ((i32(threadIdx.x) < 2i) && (i32(threadIdx.y) < 4i)) {
      matmul_ptr[(((i32(threadIdx.x) * 64i) + (i32(threadIdx.y) * 4i)) + 1i)] = matmul_reindex_pad_local[1i];
    }
    if ((i32(threadIdx.x) < 2i) && (i32(threadIdx.y) < 4i)) {
      matmul_ptr[(((i32(threadIdx.x) * 64i) + (i32(threadIdx.y) * 4i)) + 2i)] = matmul_reindex_pad_local[2i];
    }
    if ((i32(threadIdx.x) < 2i) && (i32(threadIdx.y) < 4i)) {
      matmul_ptr[(((i32(threadIdx.x) * 64i) + (i32(threadIdx.y) * 4i)) + 3i)] = matmul_reindex_pad_local[3i];
    }
    if ((i32(threadIdx.x) < 2i) && (i32(threadIdx.y) < 4i)) {
      matmul_ptr[(((i32(threadIdx.x) * 64i) + (i32(threadIdx.y) * 4i)) + 16i)] = matmul_reindex_pad_local[4i];
    }
    if ((i32(threadIdx.x) < 2i) && (i32(threadIdx.y) < 4i)) {
      matmul_ptr[(((i32(threadIdx.x) * 64i) + (i32(threadIdx.y) * 4i)) + 17i)] = matmul_reindex_pad_local[5i];
    }
    if ((i32(threadIdx.x) < 2i) && (i32(threadIdx.y) < 4i)) {
      matmul_ptr[(((i32(threadIdx.x) * 64i) + (i32(threadIdx.y) * 4i)) + 18i)] = matmul_reindex_pad_local[6i];
    }
    if ((i32(threadIdx.x) < 2i) && (i32(threadIdx.y) < 4i)) {
      matmul_ptr[(((i32(threadIdx.x) * 64i) + (i32(threadIdx.y) * 4i)) + 19i)] = matmul_reindex_pad_local[7i];
    }
    if ((i32(threadIdx.x) < 1i) && (i32(threadIdx.y) < 4i)) {
      matmul_ptr[(((i32(threadIdx.x) * 64i) + (i32(threadIdx.y) * 4i)) + 32i)] = matmul_reindex_pad_local[8i];
    }
    if ((i32(threadIdx.x) < 1i) && (i32(threadIdx.y) < 4i)) {
      matmul_ptr[(((i32(threadIdx.x) * 64i) + (i32(threadIdx.y) * 4i)) + 33i)] = matmul_reindex_pad_local[9i];
    }
    if ((i32(threadIdx.x) < 1i) && (i32(threadIdx.y) < 4i)) {
      matmul_ptr[(((i32(threadIdx.x) * 64i) + (i32(threadIdx.y) * 4i)) + 34i)] = matmul_reindex_pad_local[10i];
    }
    if ((i32(threadIdx.x) < 1i) && (i32(threadIdx.y) < 4i)) {
      matmul_ptr[(((i32(threadIdx.x) * 64i) + (i32(threadIdx.y) * 4i)) + 35i)] = matmul_reindex_pad_local[11i];
    }
    if ((i32(threadIdx.x) < 1i) && (i32(threadIdx.y) < 4i)) {
      matmul_ptr[(((i32(threadIdx.x) * 64i) + (i32(threadIdx.y) * 4i)) + 48i)] = matmul_reindex_pad_local[12i];
    }
    if ((i32(threadIdx.x) < 1i) && (i32(threadIdx.y) < 4i)) {
      matmul_ptr[(((i32(threadIdx.x) * 64i) + (i32(threadIdx.y) * 4i)) + 49i)] = matmul_reindex_pad_local[13i];
    }
    if ((i32(threadIdx.x) < 1i) && (i32(threadIdx.y) < 4i)) {
      matmul_ptr[(((i32(threadIdx.x) * 64i) + (i32(threadIdx.y) * 4i)) + 50i)] = matmul_reindex_pad_local[14i];
    }
    if ((i32(threadIdx.x) < 1i) && (i32(threadIdx.y) < 4i)) {
      matmul_ptr[(((i32(threadIdx.x) * 64i) + (i32(threadIdx.y) * 4i)) + 51i)] = matmul_reindex_pad_local[15i];
    }
  }
}
