/**
 * Knows the names and the number of an operation's outputs. Inside functions a tensor is `node:output:index`, with an
 * index within `output`: the second output of TopKV2 is `indices:0` there and port 1 everywhere else.
 */
import { badModel } from '../../../../lib/contract/errors.ts';
import { has, messageOf, messagesOf, numberOf, numbersOf, textOf } from '../../../wire/message.ts';
import type { Message, MessageMap } from '../../../wire/table.ts';

/** Operations with more than one output. `name*attribute`: the attribute gives the number of tensors. */
const FAMILIES: readonly (readonly [outputs: string, operations: string])[] = [
  ['output_false output_true', 'Switch RefSwitch'],
  ['output value_index', 'Merge RefMerge'],
  ['y batch_mean batch_variance reserve_space_1 reserve_space_2', 'FusedBatchNorm FusedBatchNormV2'],
  [
    'y batch_mean batch_variance reserve_space_1 reserve_space_2 reserve_space_3',
    'FusedBatchNormV3 _FusedBatchNormEx',
  ],
  ['values indices', 'TopK TopKV2 ApproxTopK'],
  ['y idx', 'Unique UniqueV2'],
  ['y idx count', 'UniqueWithCounts UniqueWithCountsV2'],
  ['out idx', 'ListDiff'],
  ['output argmax', 'MaxPoolWithArgmax'],
  ['output row_pooling_sequence col_pooling_sequence', 'FractionalMaxPool FractionalAvgPool'],
  ['loss backprop', 'SoftmaxCrossEntropyWithLogits SparseSoftmaxCrossEntropyWithLogits'],
  ['loss gradient', 'CTCLoss CTCLossV2'],
  ['r0 r1', 'BroadcastGradientArgs'],
  ['selected_indices selected_scores', 'NonMaxSuppressionWithScores'],
  ['selected_indices valid_outputs', 'NonMaxSuppressionV4'],
  ['selected_indices selected_scores valid_outputs', 'NonMaxSuppressionV5'],
  ['nmsed_boxes nmsed_scores nmsed_classes valid_detections', 'CombinedNonMaxSuppression'],
  ['rois roi_probabilities', 'GenerateBoundingBoxProposals'],
  ['begin size bboxes', 'SampleDistortedBoundingBox SampleDistortedBoundingBoxV2'],
  ['output_handle tensor', 'TensorListPopBack'],
  ['tensor lengths', 'TensorListConcat TensorListConcatV2'],
  ['handle flow', 'TensorArrayV3'],
  ['value lengths', 'TensorArrayConcat TensorArrayConcatV2 TensorArrayConcatV3'],
  ['grad_handle flow_out', 'TensorArrayGradV3 TensorArrayGradWithShape'],
  ['i cs f o ci co h', 'LSTMBlockCell BlockLSTM BlockLSTMV2'],
  ['r u c h', 'GRUBlockCell'],
  ['output output_h output_c reserve_space', 'CudnnRNN'],
  ['output output_h output_c reserve_space host_reserved', 'CudnnRNNV2 CudnnRNNV3'],
  ['s u v', 'Svd'],
  ['q r', 'Qr'],
  ['lu p', 'Lu'],
  ['e v', 'SelfAdjointEigV2 Eig'],
  ['sign log_abs_determinant', 'LogMatrixDeterminant'],
  [
    'output output_min output_max',
    'QuantizeV2 QuantizeDownAndShrinkRange Requantize QuantizedConcat QuantizedConcatV2 QuantizedReshape RequantizePerChannel',
  ],
  ['output_min output_max', 'RequantizationRange RequantizationRangePerChannel'],
  [
    'output min_output max_output',
    'QuantizedConv2D QuantizedMaxPool QuantizedAvgPool QuantizedDepthwiseConv2D QuantizedConv2DWithBias',
  ],
  ['out min_out max_out', 'QuantizedMatMul QuantizedMatMulWithBias'],
  ['activations min_activations max_activations', 'QuantizedRelu QuantizedRelu6 QuantizedReluX'],
  ['output min_out max_out', 'QuantizedBiasAdd'],
  ['z min_z max_z', 'QuantizedAdd QuantizedMul'],
  ['result result_min result_max', 'QuantizedBatchNormWithGlobalNormalization'],
  ['y y_min y_max', 'QuantizedInstanceNorm'],
  ['resized_images out_min out_max', 'QuantizedResizeBilinear'],
  ['output_indices output_values', 'SparseReorder SparseSparseMaximum SparseSparseMinimum'],
  ['output_indices output_shape', 'SparseReshape'],
  [
    'output_indices output_values output_shape',
    'SparseConcat SparseSlice SparseCross SparseCrossV2 SparseCrossHashed SparseReduceSumSparse SparseReduceMaxSparse',
  ],
  ['output_indices*num_split output_values*num_split output_shape*num_split', 'SparseSplit'],
  ['output_indices output_values empty_row_indicator reverse_index_map', 'SparseFillEmptyRows'],
  [
    'output_indices output_values output_dense_shape',
    'DenseCountSparseOutput SparseCountSparseOutput RaggedCountSparseOutput',
  ],
  ['indices values shape', 'StringSplit StringSplitV2'],
  ['indices values dense_shape', 'CSRSparseMatrixToSparseTensor'],
  [
    'result_indices result_values result_shape',
    'SparseToSparseSetOperation DenseToSparseSetOperation DenseToDenseSetOperation',
  ],
  [
    'sparse_indices sparse_values sparse_shape',
    'DeserializeSparse DeserializeManySparse TakeManySparseFromTensorsMap',
  ],
  ['sparse_indices sparse_values sparse_dense_shape', 'RaggedTensorToSparse'],
  ['rt_nested_splits rt_dense_values', 'RaggedRange'],
  ['output_nested_splits*OUTPUT_RAGGED_RANK output_dense_values', 'RaggedGather'],
  ['output_nested_splits*output_ragged_rank output_dense_values', 'RaggedTensorFromVariant'],
  ['output_values output_row_splits', 'RaggedCross'],
  ['row_splits char_values', 'UnicodeDecode'],
  ['row_splits char_values char_to_byte_starts', 'UnicodeDecodeWithOffsets'],
  ['ngrams ngrams_splits', 'StringNGrams'],
  ['keys values', 'LookupTableExport LookupTableExportV2'],
  ['decoded_indices decoded_values decoded_shape log_probability', 'CTCGreedyDecoder'],
  [
    'decoded_indices*top_paths decoded_values*top_paths decoded_shape*top_paths log_probability',
    'CTCBeamSearchDecoder',
  ],
  [
    'sampled_candidates true_expected_count sampled_expected_count',
    'UniformCandidateSampler LogUniformCandidateSampler LearnedUnigramCandidateSampler FixedUnigramCandidateSampler AllCandidateSampler ThreadUnsafeUnigramCandidateSampler',
  ],
  ['indices ids weights', 'ComputeAccidentalHits'],
  ['nearest_center_indices nearest_center_distances', 'NearestNeighbors'],
  ['audio sample_rate', 'DecodeWav'],
  ['key value', 'ReaderRead ReaderReadV2'],
  ['key counter', 'StatelessRandomGetKeyCounter'],
  ['key counter alg', 'StatelessRandomGetKeyCounterAlg'],
  ['output segments', 'IsotonicRegression'],
  ['sorted_keys sorted_values', 'XlaKeyValueSort'],
  ['sizes values*output_types', 'DecodeProtoV2'],
  ['batched_tensors*T batch_index id', 'Batch'],
  [
    'sparse_indices*Nsparse sparse_values*sparse_types sparse_shapes*Nsparse dense_values*Tdense',
    'ParseExample',
  ],
  [
    'sparse_indices*num_sparse sparse_values*sparse_types sparse_shapes*num_sparse dense_values*Tdense',
    'ParseSingleExample',
  ],
  [
    'sparse_indices*num_sparse sparse_values*sparse_types sparse_shapes*num_sparse dense_values*Tdense ragged_values*ragged_value_types ragged_row_splits*ragged_split_types',
    'ParseExampleV2',
  ],
];

/** Operations whose one output is a list of tensors. */
const LISTS: Readonly<Record<string, string>> = {
  Split: 'num_split',
  SplitV: 'num_split',
  Unpack: 'num',
  DynamicPartition: 'num_partitions',
  ConcatOffset: 'N',
  ShapeN: 'N',
  IdentityN: 'T',
  While: 'T',
  StatelessWhile: 'T',
  If: 'Tout',
  StatelessIf: 'Tout',
  Case: 'Tout',
  StatelessCase: 'Tout',
  PartitionedCall: 'Tout',
  StatefulPartitionedCall: 'Tout',
  IteratorGetNext: 'output_types',
};

interface OutputArgument {
  readonly name: string;
  /** The attribute with the number of tensors; undefined: one tensor. */
  readonly count?: string;
}

/** The outputs of each operation, in order. An operation that is not listed has at most one output. */
export type OutputTable = ReadonlyMap<string, readonly OutputArgument[]>;

const KNOWN: OutputTable = new Map(
  FAMILIES.flatMap(([outputs, operations]) => {
    const list = outputs.split(' ').map((output) => {
      const [name = '', count] = output.split('*');
      return count === undefined ? { name } : { name, count };
    });
    return operations.split(' ').map((operation) => [operation, list] as const);
  }),
);

/** The built-in table, overridden by the OpDef messages of the file (function signatures are OpDefs too). */
export function outputTable(definitions: readonly Message[]): OutputTable {
  const table = new Map(KNOWN);
  for (const definition of definitions) {
    const list = messagesOf(definition, 'output_arg').map((argument) => {
      const count = textOf(argument, 'number_attr') || textOf(argument, 'type_list_attr');
      const name = textOf(argument, 'name');
      return count === '' ? { name } : { name, count };
    });
    if (list.length > 0) table.set(textOf(definition, 'name'), list);
  }
  return table;
}

interface OutputOwner {
  readonly name: string;
  readonly op: string;
  readonly attributes: MessageMap;
}

/** Returns the port of tensor `index` of the output `name`. */
export function portOf(table: OutputTable, owner: OutputOwner, name: string, index: number): number {
  const list = table.get(owner.op);
  // An unknown operation has one output, whose name does not matter.
  if (list === undefined || (list.length === 1 && list[0]?.name !== name)) return index;
  let port = 0;
  for (const argument of list) {
    if (argument.name === name) return port + index;
    port += widthOf(owner, argument.count);
  }
  throw badModel(`node "${owner.name}" (${owner.op}) has no output "${name}"`);
}

/** The number of a node's output tensors; 1 for an unknown operation. */
export function portCount(table: OutputTable, owner: OutputOwner): number {
  const list = LISTS[owner.op];
  if (list !== undefined) return Math.max(1, widthOf(owner, list));
  const known = table.get(owner.op);
  return known === undefined ? 1 : known.reduce((sum, { count }) => sum + widthOf(owner, count), 0);
}

const MAX_WIDTH = 100_000;

function widthOf(owner: OutputOwner, count: string | undefined): number {
  if (count === undefined) return 1;
  const value = owner.attributes.get(count) as Message | undefined;
  if (value === undefined) return 0;
  if (!has(value, 'i')) return numbersOf(messageOf(value, 'list') ?? {}, 'type')?.length ?? 0;
  const width = numberOf(value, 'i');
  if (Number.isInteger(width) && width >= 0 && width <= MAX_WIDTH) return width;
  throw badModel(`node "${owner.name}" (${owner.op}): attribute ${count} is ${width}`);
}
