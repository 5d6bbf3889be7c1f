/** Messages in the formats of the Analytics Zoo clients for Python and Scala. */
import { load } from '../old-code.ts';

interface Value {
  readonly kind: 'tensor' | 'sparse' | 'text';
  readonly [field: string]: unknown;
}

interface Writers {
  readonly encodeArrowRecord: (inputs: ReadonlyMap<string, Value>) => Uint8Array;
}

interface Records {
  readonly scalaRecord: (
    name: string,
    shape: number[],
    data: number[],
    indiceShape: number[],
    indiceData: number[],
  ) => Uint8Array;
}

type Message = (uri: string) => string;

export interface ZooMessages {
  readonly dense: Message;
  readonly sparse: Message;
  /** Of the Scala front end: one row, children in another order. */
  readonly scala: Message;
  /** An image as base64 in a text column. */
  readonly image: Message;
  readonly strings: Message;
  /** The serde `stream`: JSON instances. */
  readonly stream: Message;
  /** Spaced as by Python's json.dumps, and long enough for the decoder's path for large messages. */
  readonly json: Message;
}

const NUMBERS = Float32Array.from({ length: 12 }, (_, i) => i - 3);
const SHAPE = [3, 2, 2];

export async function zooMessages(root: string, png: Uint8Array): Promise<ZooMessages> {
  const { encodeArrowRecord } = await load<Writers>(root, 'lib/codecs/arrow-record-writer.ts');
  const { scalaRecord } = await load<Records>(root, 'test/lib/arrow-records.ts');
  const base64 = (bytes: Uint8Array) => Buffer.from(bytes).toString('base64');
  const arrow =
    (name: string, value: Value): Message =>
    (uri) =>
      JSON.stringify({ uri, data: base64(encodeArrowRecord(new Map([[name, value]]))) });
  const tensor = { dtype: 'float32', shape: SHAPE, data: NUMBERS };
  const sparse = {
    shape: SHAPE,
    indices: Int32Array.of(0, 0, 1, 2, 1, 1),
    indicesShape: [2, 3],
    values: { dtype: 'float32', shape: [2], data: Float32Array.of(1.5, -2) },
  };
  const scala = base64(scalaRecord('x', SHAPE, [...NUMBERS], [], []));
  return {
    dense: arrow('x', { kind: 'tensor', tensor }),
    sparse: arrow('x', { kind: 'sparse', ...sparse }),
    scala: (uri) => JSON.stringify({ uri, data: scala, serde: 'arrow' }),
    image: arrow('x', { kind: 'text', text: base64(png) }),
    strings: arrow('s', { kind: 'text', text: 'one|zwei' }),
    stream: (uri) => {
      const x = [0, 1, 2].map((i) => [
        [i, i],
        [1, 0.5],
      ]);
      return JSON.stringify({ uri, data: JSON.stringify({ instances: [{ x }] }), serde: 'stream' });
    },
    json: (uri) => {
      const data = base64(encodeArrowRecord(new Map([['x', { kind: 'tensor', tensor }]])));
      return `{"uri": "${uri}", "data": "${data}", "serde": "arrow", "more": "${' '.repeat(2_000)}"}`;
    },
  };
}
