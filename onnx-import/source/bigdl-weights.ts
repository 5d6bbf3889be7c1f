/** The names of BigDL's files. `saveModule` takes any name; tokenizers have files called `.model` too. */
export function modelFiles(names: readonly string[]): readonly string[] {
  const own = names.filter((name) => /\.bigdl$/i.test(name));
  return own.length > 0 ? own : names.filter((name) => /\.model$/i.test(name));
}

/** A separate file of weights lies beside its model: lenet.bin, lenet.model.bin or weights.bin. */
export function weightFiles(names: readonly string[]): readonly string[] {
  return names.filter((name) => /\.(bin|weights?)$/i.test(name));
}
