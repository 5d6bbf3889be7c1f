/** The lines of Python that make a TorchScript file of what a PyTorch file alone does not hold: the code of the model. */

/** A dotted name that Python can import; what a file calls so may be anything. */
const IMPORTABLE = /^(?!__main__\.)([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)\.([A-Za-z_]\w*)$/;
const MAX_NAME = 100;

interface Recipe {
  /** The file, beside which the lines run. */
  readonly file: string;
  /** The class as the file names it, with its module; undefined: the file names none. */
  readonly type?: string | undefined;
  /** Where the weights lie in the file; undefined: the file is them, or holds the whole model. */
  readonly key?: string | undefined;
}

/** For weights without a model. */
export function weightsRecipe({ file, key }: Recipe): string {
  const weights = `torch.load(${JSON.stringify(file)}, map_location="cpu")`;
  return recipe([
    'from your_code import YourModel  # the class that was trained',
    'model = YourModel()  # with the arguments that it was trained with',
    `model.load_state_dict(${weights}${key === undefined ? '' : `[${JSON.stringify(key)}]`})`,
  ]);
}

/** For a model that was pickled by the name of its class. */
export function classRecipe({ file, type = '' }: Recipe): string {
  const [, module = 'your_code', name = ownName(type)] =
    type.length > MAX_NAME ? [] : (IMPORTABLE.exec(type) ?? []);
  return recipe([
    `from ${module} import ${name}  # the code that the file only names`,
    `model = torch.load(${JSON.stringify(file)}, map_location="cpu", weights_only=False)`,
  ]);
}

/** Of a class that was defined in a script, which no import can name. */
function ownName(type: string): string {
  return /^__main__\.([A-Za-z_]\w{0,99})$/.exec(type)?.[1] ?? 'YourModel';
}

function recipe(lines: readonly string[]): string {
  return [
    'run these lines in Python, then import the folder "traced":',
    '  import os, torch',
    ...lines.map((line) => `  ${line}`),
    '  example = torch.rand(1, 3, 224, 224)  # an input as the model takes it',
    '  os.makedirs("traced", exist_ok=True)',
    '  torch.jit.trace(model.eval(), example).save("traced/model.pt")',
  ].join('\n');
}
