/** The features of this machine's processor by which onnxruntime chooses its kernels for quantized numbers. */
import { readFileSync } from 'node:fs';

/** As Linux names them, on x64 and then on arm64. */
const FEATURES = ['avx2', 'avx512f', 'avx512_vnni', 'avx_vnni', 'amx_int8', 'asimddp', 'i8mm'];

/** @param file Default: what Linux says. Empty where nothing says it. */
export function processorFeatures(file = '/proc/cpuinfo'): readonly string[] {
  let said: string;
  try {
    said = readFileSync(file, 'latin1');
  } catch {
    return [];
  }
  const words = /^(?:flags|Features)\s*:(.*)$/m.exec(said)?.[1]?.split(/\s+/) ?? [];
  return FEATURES.filter((name) => words.includes(name));
}

/** True if kernels for int8 add exactly. Others add pairs of products in 16 bits, which saturate. */
export function hasExactSums(features: readonly string[]): boolean {
  return features.includes('avx512_vnni') || features.includes('avx_vnni');
}
