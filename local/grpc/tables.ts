/**
 * The messages of `inference.GRPCInferenceService` (KServe's Open Inference Protocol, with what Triton adds) as tables for
 * protobuf's wire format: the numbers, names and types of the fields that this service reads or writes.
 */
import type { Field, ScalarType, Table } from '../../onnx-import/protobuf.ts';

/**
 * @param spec `name`, `name:type` or `name:type[]`, behind its number where that is not the next; a type that is not named is
 *   a text
 * @param messages the types that are messages; one that is called `map` is that of a map's values
 */
function table(spec: string, messages: Readonly<Record<string, Table>> = {}): Table {
  let number = 0;
  const fields = spec.split(', ').map((text) => {
    const [, at, name = '', type = 'string', many] = /^(?:(\d+) )?(\w+)(?::(\w+))?(\[\])?$/.exec(text) ?? [];
    number = at === undefined ? number + 1 : Number(at);
    return [
      number,
      fieldOf(name, messages[type] ?? (type as ScalarType), type === 'map', many !== undefined),
    ];
  });
  return Object.fromEntries(fields) as Table;
}

function fieldOf(name: string, type: Table | ScalarType, isMap: boolean, isRepeated: boolean): Field {
  if (typeof type === 'string') {
    const enumNames = type === 'enum' ? { enumNames: DATA_TYPES } : {};
    return { name, type, ...enumNames, ...(isRepeated && { repeated: true }) };
  }
  const entry: Table = { 1: { name: 'key', type: 'string' }, 2: { name: 'value', type: () => type } };
  if (isMap) return { name, type: () => entry, map: true };
  return { name, type: () => type, ...(isRepeated && { repeated: true }) };
}

/** Triton numbers its types in this order, from 1. */
const TYPES = 'BOOL UINT8 UINT16 UINT32 UINT64 INT8 INT16 INT32 INT64 FP16 FP32 FP64 STRING'.split(' ');
const DATA_TYPES = Object.fromEntries(TYPES.map((name, index) => [`TYPE_${name}`, index + 1]));

/** One of them. */
const parameter = table(
  'bool_param:bool, int64_param:int64, string_param, double_param:double, uint64_param:uint64',
);
const contents = table(
  'bool_contents:bool[], int_contents:int32[], int64_contents:int64[], uint_contents:uint32[], uint64_contents:uint64[], ' +
    'fp32_contents:float[], fp64_contents:double[], bytes_contents:bytes[]',
);
const input = table('name, datatype, shape:int64[], parameters:map, contents:contents', {
  map: parameter,
  contents,
});
const output = table('name, parameters:map', { map: parameter });

export const INFER_REQUEST = table(
  'model_name, model_version, id, parameters:map, inputs:input[], outputs:output[], raw_input_contents:bytes[]',
  { map: parameter, input, output },
);

const tensor = table('name, datatype, shape:int64[]');

export const INFER_RESPONSE = table(
  'model_name, model_version, id, 5 outputs:tensor[], raw_output_contents:bytes[]',
  { tensor },
);

export const LIVE = table('live:bool');
export const READY = table('ready:bool');
/** The message of ModelReady, ModelMetadata, ModelConfig and ModelStatistics. */
export const MODEL = table('name, version');
export const SERVER_METADATA = table('name, version, extensions:string[]');
export const MODEL_METADATA = table('name, versions:string[], platform, inputs:tensor[], outputs:tensor[]', {
  tensor,
});

export const INDEX_REQUEST = table('2 ready:bool');
export const INDEX = table('models:model[]', { model: table('name, version, state, reason') });

const config = table(
  'name, platform, 4 max_batch_size:int32, input:input[], output:output[], 14 parameters:map, 17 backend',
  {
    input: table('name, data_type:enum, 4 dims:int64[], 8 optional:bool'),
    output: table('name, data_type:enum, dims:int64[]'),
    map: table('string_value'),
  },
);
export const CONFIG = table('config:config', { config });

const time = table('count:uint64, ns:uint64');
const COMPUTE = 'compute_input:time, compute_infer:time, compute_output:time';
const statistics = table(
  'name, version, last_inference:uint64, inference_count:uint64, execution_count:uint64, inference_stats:sums, ' +
    'batch_stats:batch[]',
  {
    sums: table(`success:time, fail:time, queue:time, ${COMPUTE}, cache_hit:time, cache_miss:time`, { time }),
    batch: table(`batch_size:uint64, ${COMPUTE}`, { time }),
  },
);
export const STATISTICS = table('model_stats:statistics[]', { statistics });
