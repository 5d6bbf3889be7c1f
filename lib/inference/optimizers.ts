/**
 * The rewrites of onnxruntime 1.30 for the CPU, by name: those that a session may leave off, and why some always are.
 * A name that another version does not know has no effect there.
 */

/**
 * In about the order in which they run. Avx2WeightS8ToU8Transformer is never off: it is what makes sums of int8 exact
 * where the processor adds pairs of products in 16 bits, which saturate.
 */
export const OPTIMIZERS: readonly string[] = [
  'EliminateIdentity',
  'EliminateSlice',
  'UnsqueezeElimination',
  'EliminateDropout',
  'ExpandElimination',
  'CastElimination',
  'CastChainElimination',
  'PreShapeNodeElimination',
  'NoopElimination',
  'DivMulFusion',
  'FuseReluClip',
  'GemmSumFusion',
  'GemmTransposeFusion',
  'NotWhereFusion',
  'ConvAddFusion',
  'ConvMulFusion',
  'ConvBNFusion',
  'Pad_Fusion',
  'MatMul_BatchNormalization_Fusion',
  'LabelEncoderFusion',
  'Level1_RuleBasedTransformer',
  'DoubleQDQPairsRemover',
  'ConstantSharing',
  'CommonSubexpressionElimination',
  'ConstantFolding',
  'MatMulAddFusion',
  'ReshapeFusion',
  'GeluFusionL1',
  'LayerNormFusionL1',
  'QDQPropagationTransformer',
  'WeightBiasQuantization',
  'EnsureUniqueDQForNodeUnit',
  'TransposeOptimizer',
  'ClipQuantRewrite',
  'ReluQuantRewrite',
  'Level2_RuleBasedTransformer',
  'QDQS8ToU8Transformer',
  'QDQSelectorActionTransformer',
  'GemmActivationFusion',
  'MatMulIntegerToFloatFusion',
  'DynamicQuantizeMatMulFusion',
  'ConvActivationFusion',
  'GeluFusionL2',
  'LayerNormFusionL2',
  'SimplifiedLayerNormFusion',
  'AttentionFusion',
  'EmbedLayerNormFusion',
  'GatherSliceToSplitFusion',
  'GatherToSliceFusion',
  'SliceConcatToSpaceToDepthFusion',
  'MatmulTransposeFusion',
  'BiasGeluFusion',
  'GroupQueryAttentionFusion',
  'SkipLayerNormFusion',
  'BiasSkipLayerNormFusion',
  'FastGeluFusion',
  'QuickGeluFusion',
  'BiasSoftmaxFusion',
  'BiasDropoutFusion',
  'MatMulScaleFusion',
  'MatMulActivationFusion',
  'MatMulNBitsFusion',
  'QDQFinalCleanupTransformer',
  'NchwcTransformer',
  'NhwcTransformer',
  'ConvAddActivationFusion',
];

/**
 * Off in every session, because they change answers. Pad_Fusion gives a MaxPool the zero padding in front of it as its own,
 * which counts as minus infinity. GatherToSliceFusion reads a Range that begins below 0 as a slice, which is empty. DivMulFusion
 * makes a / b of (1 / b) * a, also of whole numbers, where 1 / b is 0.
 */
export const WRONG_OPTIMIZERS: readonly string[] = ['Pad_Fusion', 'GatherToSliceFusion', 'DivMulFusion'];
