/**
 * Files that look like models and are none that can be imported, with what to do about each: the command of the tool that
 * wrote it, where there is one. Nothing is done for formats from which no tool leads to ONNX but to name the way back.
 */
import type { AdviceTable } from './builders.ts';
import type { Content } from './content.ts';
import { mxnetCall, paddle2onnx } from './converters.ts';
import { OTHERS, UNKNOWN } from './others.ts';
import { PYTHON } from './python.ts';

const ADVICE: AdviceTable = [...PYTHON, ...OTHERS];

/** What to do about the first of these files that is known; undefined when none is. */
export function adviceOn(names: readonly string[]): string | undefined {
  return adviceIn(ADVICE, names);
}

export function adviceOnUnknown(names: readonly string[]): string | undefined {
  return adviceIn(UNKNOWN, names);
}

function adviceIn(list: AdviceTable, names: readonly string[]): string | undefined {
  for (const [pattern, advice] of list) {
    const file = names.find((name) => pattern.test(name));
    if (file !== undefined) return advice(file, names);
  }
  return undefined;
}

/** Endings by which the tool of the advice knows its files. */
const NEEDS_ENDING = /^\.(h5|tflite)$/;

/** What to do about a file that is of this content, whatever its name is. */
export function adviceOnContent(file: string, { title, kind, ending }: Content): string {
  const advice = [...ADVICE, ...UNKNOWN].find(([pattern]) => pattern.test(`x${ending}`))?.[1];
  const name = ending.startsWith('.') ? `model${ending}` : ending;
  if (advice && NEEDS_ENDING.test(ending)) return `rename it to ${name}; ${advice(name, [])}`;
  if (advice) return advice(file, []);
  return `${file} is ${title}; ${kind ? `rename it to ${name}` : 'export the model to ONNX'}`;
}

/** What a JSON document is that is no model of XGBoost; undefined when it is not known. */
export function adviceOnJson(file: string, document: unknown): string | undefined {
  // A list of numbers is read when it is asked for.
  if (typeof document === 'function' || Array.isArray(document))
    return 'a list, as dump_model of XGBoost writes it; in Python: booster.save_model("model.json")';
  if (typeof document !== 'object' || document === null) return undefined;
  const has = (...keys: readonly string[]) => keys.some((key) => Object.hasOwn(document, key));
  const { format } = document as { readonly format?: unknown };
  if (format === 'graph-model')
    return `a graph of TensorFlow.js; \`python -m tf2onnx.convert --tfjs ${file} --output model.onnx\``;
  if (format === 'layers-model' || has('modelTopology', 'weightsManifest'))
    return `a model of TensorFlow.js; \`tensorflowjs_converter --input_format=tfjs_layers_model --output_format=keras_saved_model ${file} saved\` makes a SavedModel`;
  if (has('oblivious_trees', 'features_info'))
    return `a model of CatBoost; in Python: catboost.CatBoost().load_model("${file}", format="json").save_model("model.onnx", format="onnx")`;
  if (has('tree_info'))
    return 'what dump_model of LightGBM writes; in Python: booster.save_model("model.txt")';
  if (has('base_code', 'program')) return `a graph of PaddlePaddle; \`${paddle2onnx(file)}\``;
  if (has('nodes', 'arg_nodes', 'heads'))
    return `a graph of MXNet or TVM; ${mxnetCall(file, 'model-0000.params')}`;
  return undefined;
}
