/** An ONNX file as an import reports on it: its nodes, small constants and metadata, without weights. */
import { skimMessage } from '../batching/skim.ts';
import { readMessage } from '../wire/binary.ts';
import type { Message, Table } from '../wire/table.ts';

const text = (name: string) => ({ name, type: 'string' as const });
const ENTRY: Table = { 1: text('key'), 2: text('value') };

/**
 * @param fields of tensors besides type and name. Each reader asks for its own, because the file is read to a limit of
 * bytes, and fields that it does not use would displace what comes after them.
 * @throws bad_model when the file is damaged
 */
export function readSmallParts(path: string, fields: Table): Message {
  const tensor: Table = { ...fields, 2: { name: 'type', type: 'int64' }, 8: text('name') };
  const attribute: Table = {
    1: text('name'),
    5: { name: 'tensor', type: () => tensor },
    8: { name: 'ints', type: 'int64', repeated: true },
    9: { name: 'texts', type: 'bytes', repeated: true },
  };
  const node: Table = {
    1: { name: 'inputs', type: 'string', repeated: true },
    2: { name: 'outputs', type: 'string', repeated: true },
    4: text('operator'),
    5: { name: 'attributes', type: () => attribute, repeated: true },
  };
  const graph: Table = {
    1: { name: 'nodes', type: () => node, repeated: true },
    5: { name: 'tensors', type: () => tensor, repeated: true },
    12: { name: 'outputs', type: () => ({ 1: text('name') }), repeated: true },
  };
  const model: Table = {
    7: { name: 'graph', type: () => graph },
    14: { name: 'metadata', type: () => ENTRY, repeated: true },
  };
  return readMessage(skimMessage(path, model), model);
}
