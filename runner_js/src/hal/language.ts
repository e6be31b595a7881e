/** Language features of WGSL that kernels may require. */
const WANTED = ["packed_4x8_integer_dot_product"] as const;

/** Those that an implementation has; none where it does not say (`navigator.gpu.wgslLanguageFeatures`). */
export function languageFeatures(language: { has(name: string): boolean } | undefined): string[] {
  return WANTED.filter((name) => language?.has(name));
}
