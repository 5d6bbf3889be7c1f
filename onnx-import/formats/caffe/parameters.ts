/**
 * Field tables of the parameter messages of Caffe's layers, official and of forks (SSD, SegNet, PSPNet, DeepLab,
 * ShuffleNet, Faster R-CNN). Forks reuse each other's field numbers, so only the text is read with these tables, by
 * name; numbers from 10,000 on are made up where forks disagree.
 */
import { type EnumNames, table } from './fields.ts';

const POOL: EnumNames = { MAX: 0, AVE: 1, STOCHASTIC: 2 };

const FILLER = table('string type=1, float value=2, float min=3, float max=4, float mean=5, float std=6');
const SHAPE = table('int64* dim=1');
const Filler = () => FILLER;
const Shape = () => SHAPE;

const PRIOR_BOX = table(
  'float* min_size=1, float* max_size=2, float* aspect_ratio=3, bool flip=4, bool clip=5, float* variance=6, ' +
    'uint32 img_size=7, uint32 img_h=8, uint32 img_w=9, float step=10, float step_h=11, float step_w=12, ' +
    'float offset=13, float* offset_h=14, float* offset_w=15, float* width=16, float* height=17',
);
const NON_MAXIMUM_SUPPRESSION = table('float nms_threshold=1, int32 top_k=2, float eta=3');

/** Tables by the name of the layer's field. */
const PARAMETERS = {
  argmax_param: table('bool out_max_val=1, uint32 top_k=2, int32 axis=3'),
  batch_norm_param: table(
    'bool use_global_stats=1, float moving_average_fraction=2, float eps=3, bool scale_bias=7',
  ),
  bias_param: table('int32 axis=1, int32 num_axes=2, Filler filler=3', { Filler }),
  bn_param: table(
    'Filler scale_filler=10001, Filler shift_filler=10002, Filler slope_filler=1, Filler bias_filler=2, ' +
      'float momentum=10003, float eps=10004, bool frozen=10005, Mode bn_mode=10006',
    { Filler, Mode: { LEARN: 0, INFERENCE: 1 } },
  ),
  clip_param: table('float min=1, float max=2'),
  concat_param: table('uint32 concat_dim=1, int32 axis=2'),
  convolution_param: table(
    'uint32 num_output=1, bool bias_term=2, uint32* pad=3, uint32* kernel_size=4, uint32 group=5, uint32* stride=6, ' +
      'Filler weight_filler=7, Filler bias_filler=8, uint32 pad_h=9, uint32 pad_w=10, uint32 kernel_h=11, ' +
      'uint32 kernel_w=12, uint32 stride_h=13, uint32 stride_w=14, int32 axis=16, uint32* dilation=18, ' +
      'uint32 dilation_h=10001, uint32 dilation_w=10002',
    { Filler },
  ),
  crelu_param: table('float negative_slope=1, int32 concat_axis=2'),
  crop_param: table('int32 axis=1, uint32* offset=2'),
  detection_output_param: table(
    'uint32 num_classes=1, bool share_location=2, int32 background_label_id=3, Nms nms_param=4, Code code_type=6, ' +
      'int32 keep_top_k=7, bool variance_encoded_in_target=8, float confidence_threshold=9, bool normalized_bbox=10001',
    {
      Nms: () => NON_MAXIMUM_SUPPRESSION,
      Code: { CORNER: 1, CENTER_SIZE: 2, CORNER_SIZE: 3 },
    },
  ),
  data_param: table('string source=1, float scale=2, uint32 batch_size=4, uint32 crop_size=5'),
  dropout_param: table('float dropout_ratio=1, bool sample_weights_test=2'),
  dummy_data_param: table(
    'Filler* data_filler=1, uint32* num=2, uint32* channels=3, uint32* height=4, uint32* width=5, Shape* shape=6',
    { Filler, Shape },
  ),
  eltwise_param: table('Operation operation=1, float* coeff=2', {
    Operation: { PROD: 0, SUM: 1, MAX: 2, MIN: 3 },
  }),
  elu_param: table('float alpha=1'),
  embed_param: table('uint32 num_output=1, uint32 input_dim=2, bool bias_term=3'),
  exp_param: table('float base=1, float scale=2, float shift=3'),
  flatten_param: table('int32 axis=1, int32 end_axis=2'),
  hdf5_data_param: table('string source=1, uint32 batch_size=2'),
  image_data_param: table(
    'float scale=2, uint32 batch_size=4, uint32 crop_size=5, uint32 new_height=9, uint32 new_width=10, bool is_color=11',
  ),
  inner_product_param: table(
    'uint32 num_output=1, bool bias_term=2, Filler weight_filler=3, Filler bias_filler=4, int32 axis=5, bool transpose=6',
    { Filler },
  ),
  input_param: table('Shape* shape=1', { Shape }),
  interp_param: table(
    'int32 height=1, int32 width=2, int32 zoom_factor=3, int32 shrink_factor=4, int32 pad_beg=5, int32 pad_end=6',
  ),
  log_param: table('float base=1, float scale=2, float shift=3'),
  lrn_param: table('uint32 local_size=1, float alpha=2, float beta=3, Region norm_region=4, float k=5', {
    Region: { ACROSS_CHANNELS: 0, WITHIN_CHANNEL: 1 },
  }),
  memory_data_param: table('uint32 batch_size=1, uint32 channels=2, uint32 height=3, uint32 width=4'),
  mvn_param: table('bool normalize_variance=1, bool across_channels=2, float eps=3'),
  norm_param: table('bool across_spatial=1, Filler scale_filler=2, bool channel_shared=3, float eps=4', {
    Filler,
  }),
  parameter_param: table('Shape shape=1', { Shape }),
  permute_param: table('uint32* order=1'),
  pooling_param: table(
    'Pool pool=1, uint32 kernel_size=2, uint32 stride=3, uint32 pad=4, uint32 kernel_h=5, uint32 kernel_w=6, ' +
      'uint32 stride_h=7, uint32 stride_w=8, uint32 pad_h=9, uint32 pad_w=10, bool global_pooling=12, ' +
      'Round round_mode=13, bool ceil_mode=10001',
    { Pool: POOL, Round: { CEIL: 0, FLOOR: 1 } },
  ),
  power_param: table('float power=1, float scale=2, float shift=3'),
  prelu_param: table('Filler filler=1, bool channel_shared=2', { Filler }),
  prior_box_param: PRIOR_BOX,
  proposal_param: table(
    'float feat_stride=1, float base_size=2, float min_size=3, float* ratio=4, float* scale=5, int32 pre_nms_topn=6, ' +
      'int32 post_nms_topn=7, float nms_thresh=8',
  ),
  psroi_pooling_param: table('float spatial_scale=1, int32 output_dim=2, int32 group_size=3'),
  python_param: table('string module=1, string layer=2, string param_str=3'),
  recurrent_param: table('uint32 num_output=1, bool expose_hidden=5'),
  reduction_param: table('Operation operation=1, int32 axis=2, float coeff=3', {
    Operation: { SUM: 1, ASUM: 2, SUMSQ: 3, MEAN: 4 },
  }),
  relu_param: table('float negative_slope=1'),
  relu6_param: table('float negative_slope=1, float threshold=2'),
  reorg_param: table('uint32 stride=1, bool reverse=2'),
  reshape_param: table('Shape shape=1, int32 axis=2, int32 num_axes=3', { Shape }),
  roi_pooling_param: table('uint32 pooled_h=1, uint32 pooled_w=2, float spatial_scale=3'),
  scale_param: table(
    'int32 axis=1, int32 num_axes=2, Filler filler=3, bool bias_term=4, Filler bias_filler=5',
    {
      Filler,
    },
  ),
  shuffle_channel_param: table('uint32 group=1'),
  slice_param: table('uint32 slice_dim=1, uint32* slice_point=2, int32 axis=3'),
  softmax_param: table('int32 axis=2'),
  spp_param: table('uint32 pyramid_height=1, Pool pool=2', { Pool: POOL }),
  swish_param: table('float beta=1'),
  threshold_param: table('float threshold=1'),
  tile_param: table('int32 axis=1, int32 tiles=2'),
  transform_param: table(
    'float scale=1, bool mirror=2, uint32 crop_size=3, string mean_file=4, float* mean_value=5, bool force_color=6, ' +
      'bool force_gray=7',
  ),
  upsample_param: table(
    'float scale=1, uint32 scale_h=2, uint32 scale_w=3, uint32 upsample_h=5, uint32 upsample_w=6, ' +
      'uint32 stride=10001, uint32 stride_h=10002, uint32 stride_w=10003',
  ),
  window_data_param: table('float scale=2, uint32 batch_size=4, uint32 crop_size=5'),
} as const;

export type ParameterName = keyof typeof PARAMETERS;

/** The line with all parameter fields for a layer's table, numbered from `first`, and their types. */
export function parameterFields(first: number): { line: string; types: Record<string, () => object> } {
  const entries = Object.entries(PARAMETERS);
  return {
    line: entries.map(([name], i) => `${name} ${name}=${first + i}`).join(', '),
    types: Object.fromEntries(entries.map(([name, own]) => [name, () => own])),
  };
}
