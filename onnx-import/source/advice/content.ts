/**
 * Tells by the first bytes of a file what it is, where its name says something else or nothing. A file that was renamed is no
 * damaged download: to fetch it again does not help.
 */
import { readHead } from '../../../lib/registry/onnx-file.ts';
import type { ModelKind } from '../kinds.ts';

export interface Content {
  readonly title: string;
  /** The kind that reads it. */
  readonly kind?: ModelKind;
  /** An ending that files of this content have. */
  readonly ending: string;
}

type Magic = readonly [magic: { test(text: string): boolean }, content: Content];

/** Control characters, which a regular expression hides. */
const starts = (pattern: readonly string[], at = 0) => ({
  test: (text: string) => pattern.every((allowed, i) => allowed.includes(text[at + i] ?? '?')),
});

/** Of bytes as Latin-1. The first that matches counts. */
const MAGICS: readonly Magic[] = [
  [/^\x89HDF\r\n/, { title: 'an HDF5 file, as Keras writes it', ending: '.h5' }],
  [/^GGUF/, { title: 'a GGUF file of llama.cpp', ending: '.gguf' }],
  [/^(lmgg|ggml|tjgg|fmgg)/, { title: 'a GGML file', ending: '.ggml' }],
  [/^[^]{4}TFL3/, { title: 'a TensorFlow Lite model', ending: '.tflite' }],
  [/^[^]{4}ORTM/, { title: "a model in onnxruntime's own format", ending: '.ort' }],
  [/^[^]{4}ET\d\d/, { title: 'a program of ExecuTorch', ending: '.pte' }],
  [starts(['\0', '\0', '\0', '\0', '{'], 4), { title: 'a file of safetensors', ending: '.safetensors' }],
  [/^CBM1/, { title: 'a model of CatBoost', ending: '.cbm' }],
  [/^(binf|bs64)/, { title: "XGBoost's old binary format", ending: '.deprecated' }],
  [/^\{[iUIlL#]/, { title: 'a model of XGBoost', kind: 'xgboost', ending: '.ubj' }],
  [/^\{\s*"learner"/, { title: 'a model of XGBoost', kind: 'xgboost', ending: '.json' }],
  [/^tree\r?\n/, { title: 'a model of LightGBM', kind: 'lightgbm', ending: '.txt' }],
  [/^(\[\s*\{ "nodeid"|booster\[\d+\])/, { title: 'a dump of XGBoost', ending: '.xgbdump' }],
  [starts(['\xac', '\xed', '\0', '\x05']), { title: "an object of Java's serialization", ending: '.ser' }],
  [/^(svm_type|solver_type) /, { title: 'a model of LIBSVM', ending: '.libsvm' }],
  [starts(['\x80', '\x02\x03\x04\x05']), { title: 'a pickle of Python', ending: '.pkl' }],
  // The version of ONNX comes first, then who wrote it, or the graph.
  [
    starts(['\x08', '\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f', '\x12\x3a']),
    { title: 'an ONNX model', kind: 'onnx', ending: '.onnx' },
  ],
  [
    starts(['\x08', '\x01', '\x12']),
    { title: 'a SavedModel', kind: 'tf_saved_model', ending: 'saved_model.pb' },
  ],
];

/** Kinds whose one file begins with bytes of its own, and what else it may be. */
const READ: Partial<Record<ModelKind, (content: Content) => boolean>> = {
  onnx: () => false,
  hugging_face: () => false,
  tf_frozen: () => false,
  bigdl: () => false,
  xgboost: ({ ending }) => ending === '.deprecated',
  lightgbm: () => false,
  pytorch: ({ ending }) => ending === '.pkl',
};

/** Undefined for what is not known. */
export function contentOf(head: Uint8Array): Content | undefined {
  const text = Buffer.from(head).toString('latin1');
  return MAGICS.find(([magic]) => magic.test(text))?.[1];
}

/** What a file is, where that is not what its kind reads. */
export function otherContent(kind: ModelKind, head: Uint8Array): Content | undefined {
  const isRead = READ[kind];
  const content = isRead && contentOf(head);
  if (!content || isRead(content)) return undefined;
  const isSame = content.kind === kind || (kind === 'hugging_face' && content.kind === 'onnx');
  return isSame ? undefined : content;
}

/** Trees that have an ending of another library, or none, are read as what they are. @returns the kind that reads the file */
export async function kindByContent(kind: ModelKind, path: string): Promise<ModelKind> {
  if (kind !== 'bigdl' && kind !== 'xgboost') return kind;
  const found = contentOf(await readHead(path).catch(() => new Uint8Array()))?.kind;
  return found === 'xgboost' || found === 'lightgbm' ? found : kind;
}
