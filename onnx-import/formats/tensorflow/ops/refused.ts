/**
 * Explains why an operation cannot be converted and what helps. Most are preprocessing at the inputs of a graph,
 * which can be cut off by converting from a later tensor.
 */
const CUT = 'name another input tensor with --input to cut the preprocessing off';

const GROUPS: readonly (readonly [RegExp, string])[] = [
  [
    /^(ParseExample|ParseSingleExample|ParseSequenceExample|DecodeCSV|DecodeRaw|DecodeJSONExample|ParseTensor)/,
    'reads serialized records',
  ],
  [
    /^(Decode(Jpeg|Png|Bmp|Gif|Image|AndCropJpeg|Base64|Webp|Wav|Compressed)|EncodeJpeg|EncodePng|ExtractJpegShape)/,
    'decodes files',
  ],
  [/(HashTable|LookupTable|^Lookup|Vocab)/, 'looks up in a table'],
  [/^StringToHash/, 'hashes texts (as for num_oov_indices above 1)'],
  [
    /^(String(Join|Split|Lower|Upper|Strip|Format|Length|NGrams)|Regex|StaticRegex|Substr|UnicodeDecode|UnicodeTranscode|ReduceJoin|Unicode|UnsortedSegmentJoin)/,
    'works on texts',
  ],
  [/^(Ragged|Sparse)/, 'works on sparse or ragged tensors'],
  [/^(Iterator|OneShotIterator|.*Dataset|Queue|.*Queue|ReadFile|WholeFileReader|ReaderRead)/, 'reads data'],
];

/** How to do without an operation of the preprocessing; empty for any other. */
export function wayOut(op: string, behind: readonly string[]): string {
  if (!GROUPS.some(([names]) => names.test(op))) return '';
  const as =
    behind.length === 0 ? '' : `; right behind it ${behind.length === 1 ? 'is' : 'are'} ${behind.join(', ')}`;
  return `; ${CUT}${as}`;
}

const WRITES =
  /^(Assign|ResourceApply|Apply|Scatter(Add|Sub|Update)|ResourceScatter|Variable|VarHandleOp|CountUpTo|Save|MutableHashTable)/;
const RANDOM =
  /^(Multinomial|Random|StatelessRandom|StatelessMultinomial|TruncatedNormal|ParameterizedTruncatedNormal)/;
const PYTHON = /^(PyFunc|EagerPyFunc|PyFuncStateless)/;
const TRAINING = /(Grad|Backprop(Filter)?(V2)?|Backprop)$/;

/** @param behind tensors that could become inputs instead */
export function whyRefused(op: string, behind: readonly string[] = []): string {
  for (const [names, what] of GROUPS)
    if (names.test(op)) return `${what}, which ONNX cannot do${wayOut(op, behind)}`;
  if (WRITES.test(op)) return 'changes a variable; a served model must not';
  if (RANDOM.test(op)) return 'draws random numbers, which is not supported';
  if (PYTHON.test(op)) return 'calls Python code that is not in the file';
  if (TRAINING.test(op)) return 'belongs to training; name the outputs of inference with --output';
  return 'is not supported';
}
