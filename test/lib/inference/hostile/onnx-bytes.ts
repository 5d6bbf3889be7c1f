/**
 * Writes ONNX files that no exporter would write, without any checks. The field numbers are those of onnx.proto; a
 * wrong one makes a file that is refused for another reason than intended.
 */

type Bytes = Uint8Array | string;

export const DTYPE = { float32: 1, int64: 7, string: 8, bool: 9 } as const;
/** TensorProto.data_location. */
const EXTERNAL = 1;

export function varint(number: number): Buffer {
  const bytes: number[] = [];
  let rest = BigInt.asUintN(64, BigInt(number));
  do {
    const low = Number(rest & 0x7fn);
    rest >>= 7n;
    bytes.push(rest > 0n ? low | 0x80 : low);
  } while (rest > 0n);
  return Buffer.from(bytes);
}

export function field(number: number, bytes: Bytes): Buffer {
  const content = Buffer.from(bytes as string);
  return Buffer.concat([varint((number << 3) | 2), varint(content.length), content]);
}

export function integer(number: number, content: number): Buffer {
  return Buffer.concat([varint(number << 3), varint(content)]);
}

export function message(...parts: readonly (Buffer | readonly Buffer[])[]): Buffer {
  return Buffer.concat(parts.flat());
}

export function value(name: string, type = 1, dims: readonly (number | string)[] = ['N', 2]): Buffer {
  const shape = dims.map((dim) => field(1, typeof dim === 'number' ? integer(1, dim) : field(2, dim)));
  return message(field(1, name), field(2, field(1, message(integer(1, type), field(2, message(shape))))));
}

export interface NodeExtras {
  readonly attributes?: readonly Buffer[];
  readonly domain?: string;
}

export function node(
  op: string,
  inputs: readonly string[],
  outputs: readonly string[],
  { attributes = [], domain }: NodeExtras = {},
): Buffer {
  return message(
    inputs.map((name) => field(1, name)),
    outputs.map((name) => field(2, name)),
    field(4, op),
    attributes.map((attribute) => field(5, attribute)),
    domain === undefined ? [] : [field(7, domain)],
  );
}

export const tensorAttribute = (name: string, tensor: Buffer) =>
  message(field(1, name), field(5, tensor), integer(20, 4));
export const graphAttribute = (name: string, parts: Buffer) =>
  message(field(1, name), field(6, parts), integer(20, 5));
export const sparseAttribute = (name: string, sparse: Buffer) =>
  message(field(1, name), field(22, sparse), integer(20, 11));
export const integerAttribute = (name: string, number: number) =>
  message(field(1, name), integer(3, number), integer(20, 2));

export interface GraphParts {
  readonly nodes: readonly Buffer[];
  readonly weights?: readonly Buffer[];
  readonly sparse?: readonly Buffer[];
  readonly inputs?: readonly Buffer[];
  readonly outputs?: readonly Buffer[];
}

/** Takes x and gives y, float32 [N, 2], unless told otherwise. */
export function graph({
  nodes,
  weights = [],
  sparse = [],
  inputs = [value('x')],
  outputs = [value('y')],
}: GraphParts): Buffer {
  return message(
    nodes.map((part) => field(1, part)),
    field(2, 'g'),
    weights.map((part) => field(5, part)),
    inputs.map((part) => field(11, part)),
    outputs.map((part) => field(12, part)),
    sparse.map((part) => field(15, part)),
  );
}

export interface ModelExtras {
  readonly opset?: number;
  /** Functions of the model itself, in the domain `local`. */
  readonly functions?: readonly Buffer[];
}

export function model(parts: Buffer, { opset = 17, functions = [] }: ModelExtras = {}): Buffer {
  const local = functions.length > 0 ? [field(8, message(field(1, 'local'), integer(2, 1)))] : [];
  return message(
    integer(1, 8),
    field(7, parts),
    field(8, message(field(1, ''), integer(2, opset))),
    local,
    functions.map((part) => field(25, part)),
  );
}

/** A function `local.<name>` from `a` to `b`. */
export function localFunction(name: string, nodes: readonly Buffer[]): Buffer {
  return message(
    field(1, name),
    field(4, 'a'),
    field(5, 'b'),
    nodes.map((part) => field(7, part)),
    field(9, message(field(1, ''), integer(2, 17))),
    field(9, message(field(1, 'local'), integer(2, 1))),
    field(10, 'local'),
  );
}

export function weight(name: string, type: number, dims: readonly number[], bytes: Uint8Array): Buffer {
  return message(
    dims.map((dim) => integer(1, dim)),
    integer(2, type),
    field(8, name),
    field(9, bytes),
  );
}

export const floats = (name: string, dims: readonly number[], ...numbers: number[]) =>
  weight(name, DTYPE.float32, dims, new Uint8Array(Float32Array.from(numbers).buffer));
export const integers = (name: string, dims: readonly number[], ...numbers: number[]) =>
  weight(name, DTYPE.int64, dims, new Uint8Array(BigInt64Array.from(numbers, BigInt).buffer));
export const yes = (name: string) => weight(name, DTYPE.bool, [], Uint8Array.of(1));

export interface ExternalSpec {
  readonly name?: string;
  readonly dims?: readonly number[];
  readonly type?: number;
}

/** A weight whose bytes lie elsewhere: `entries` are its external_data, as [key, value]. */
export function externalWeight(
  entries: readonly (readonly [key: string, value: string])[],
  { name = 'w', dims = [2], type = DTYPE.float32 }: ExternalSpec = {},
): Buffer {
  return message(
    dims.map((dim) => integer(1, dim)),
    integer(2, type),
    field(8, name),
    entries.map(([key, text]) => field(13, message(field(1, key), field(2, text)))),
    integer(14, EXTERNAL),
  );
}

/** Values at two indices of [2]. */
export function sparseWeight(values: Buffer): Buffer {
  return message(field(1, values), field(2, integers('', [2], 0, 1)), integer(3, 2));
}

/** y = x + w. */
export function plus(w: Pick<GraphParts, 'weights' | 'sparse'>, before: readonly Buffer[] = []): Buffer {
  return model(graph({ nodes: [...before, node('Add', ['x', 'w'], ['y'])], ...w }));
}
