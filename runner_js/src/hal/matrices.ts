/** Of an adapter that multiplies subgroup matrices; GPUFeatureName does not have it yet. */
export const MATRICES = "chromium-experimental-subgroup-matrix";

/** GPUSubgroupMatrixConfig, which GPUAdapterInfo has with that feature. */
interface MatrixConfig {
  readonly componentType: string;
  readonly resultComponentType: string;
  readonly M: number;
  readonly N: number;
  readonly K: number;
}

/**
 * What a kernel may require of subgroup matrices beside the feature: "subgroup-matrix-f16-f32-16x16x16" where 16 x 16
 * numbers of f16 are multiplied by as many and added up in f32. None on a device without the feature, or whose WGSL does
 * not number subgroups.
 */
export function matrixFeatures(
  features: { has(name: string): boolean },
  info: GPUAdapterInfo | undefined,
  language: { has(name: string): boolean } | undefined,
): string[] {
  if (!features.has(MATRICES) || !language?.has("subgroup_id")) return [];
  const found = (info as { subgroupMatrixConfigs?: Iterable<MatrixConfig> } | undefined)
    ?.subgroupMatrixConfigs;
  const names = [...(found ?? [])].map(
    ({ componentType, resultComponentType, M, N, K }) =>
      `subgroup-matrix-${componentType}-${resultComponentType}-${M}x${N}x${K}`,
  );
  return [...new Set(names)];
}
