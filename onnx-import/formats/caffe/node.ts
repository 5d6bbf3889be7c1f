/**
 * The inputs, parameters and weights of a layer during its conversion. A net is first converted with a free batch; a
 * layer that mixes the records of a batch calls `bindBatch`, and the net is converted again with the batch of the
 * file.
 */
import { badModel } from '../../../lib/contract/errors.ts';
import { BatchBound } from '../../graph/batch.ts';
import type { GraphBuilder } from '../../graph/builder.ts';
import type { Value } from '../../graph/value.ts';
import { flagOf, has, messageOf, messagesOf, numberOf, plainNumbersOf, textOf } from '../../wire/message.ts';
import type { Message } from '../../wire/table.ts';
import { type Filler, fill } from './fillers.ts';
import type { Layer } from './net.ts';
import type { ParameterName } from './parameters.ts';
import type { Blob } from './weights.ts';

/** A parameter message with defaults. */
export class Parameters {
  readonly #message: Message;

  constructor(message: Message | undefined) {
    this.#message = message ?? {};
  }

  has(name: string): boolean {
    return has(this.#message, name);
  }

  number(name: string, fallback = 0): number {
    return numberOf(this.#message, name, fallback);
  }

  flag(name: string, fallback = false): boolean {
    return flagOf(this.#message, name, fallback);
  }

  text(name: string): string {
    return textOf(this.#message, name);
  }

  numbers(name: string): number[] {
    return plainNumbersOf(this.#message, name);
  }

  child(name: string): Parameters {
    return new Parameters(messageOf(this.#message, name));
  }

  children(name: string): Parameters[] {
    return messagesOf(this.#message, name).map((message) => new Parameters(message));
  }
}

/** The positions of a MaxPool's maxima, and the height and width of the pooled plane. */
interface Positions {
  readonly at: Value;
  readonly plane: readonly [number, number];
}

/** The state that the layers of a net share during conversion. */
export interface NetState {
  readonly g: GraphBuilder;
  /** The batch of the file while the batch is free; undefined once it is bound. */
  readonly freedBatch: number | undefined;
  /** The positions of each MaxPool's maxima, by its mask; SegNet's Upsample takes them. */
  readonly positions: Map<Value, Positions>;
  readonly blobsOf: (layer: Layer) => readonly Blob[];
  readonly hasWeights: boolean;
  readonly note: (text: string) => void;
}

export class LayerNode {
  readonly layer: Layer;
  readonly inputs: readonly Value[];
  readonly net: NetState;
  readonly g: GraphBuilder;

  constructor(layer: Layer, inputs: readonly Value[], net: NetState) {
    this.layer = layer;
    this.inputs = inputs;
    this.net = net;
    this.g = net.g;
  }

  /** The name prefix of the layer's values. */
  get hint(): string {
    return this.layer.name || this.layer.type;
  }

  /** The i-th bottom. @throws bad_model when the layer has fewer */
  input(i = 0): Value {
    const value = this.inputs[i];
    if (value) return value;
    throw badModel(`needs ${i + 1} inputs, got ${this.inputs.length}`);
  }

  parameters(name: ParameterName): Parameters {
    return new Parameters(messageOf(this.layer.message, name));
  }

  /** An operation whose result is named after the layer. */
  one(op: string, inputs: readonly (Value | undefined)[], attributes = {}): Value {
    return this.g.one(op, inputs, attributes, this.hint);
  }

  /** Declares that the layer mixes the records of a batch. */
  bindBatch(): void {
    if (this.net.freedBatch !== undefined) throw new BatchBound();
  }

  blobCount(): number {
    return this.net.blobsOf(this.layer).length;
  }

  blob(i: number): Blob | undefined {
    return this.net.blobsOf(this.layer)[i];
  }

  /**
   * The layer's weights as constants of these shapes, in the order of the file.
   * @throws bad_model when their number or a size differs
   */
  weights(wanted: readonly WantedBlob[]): Value[] {
    const blobs = this.net.blobsOf(this.layer);
    if (blobs.length === 0) return this.#filled(wanted);
    if (blobs.length !== wanted.length)
      throw badModel(
        `needs ${wanted.length} blobs (${wanted.map(({ name }) => name).join(', ')}), the weights have ${blobs.length}`,
      );
    return wanted.map(({ name, shape }, i) => {
      const { data, shape: own } = blobs[i] as Blob;
      const size = shape.reduce((product, dim) => product * dim, 1);
      if (data.length !== size || (own && !sameSizes(own, shape)))
        throw badModel(
          `blob ${i} (${name}) is [${own?.join(',') ?? data.length}], expected [${shape.join(',')}]`,
        );
      return this.g.constant({ dtype: 'float32', shape, data }, `${this.hint}/${name}`);
    });
  }

  /** Caffe fills missing weights; this accepts only fillers with deterministic values. */
  #filled(wanted: readonly WantedBlob[]): Value[] {
    const tensors = wanted.map(({ shape, filler }) => filler && fill(filler, shape));
    if (!tensors.every((tensor) => tensor !== undefined))
      throw badModel(
        this.net.hasWeights
          ? 'has no blobs in the caffemodel; its name must be the same in both files'
          : 'needs weights, and there is no .caffemodel file',
      );
    this.net.note(
      `layer "${this.layer.name}" has no weights in the caffemodel; it got those of its filler (${wanted[0]?.filler?.type})`,
    );
    return tensors.map((tensor, i) => this.g.constant(tensor, `${this.hint}/${wanted[i]?.name}`));
  }
}

export interface WantedBlob {
  readonly name: string;
  readonly shape: readonly number[];
  readonly filler?: Filler | undefined;
}

/** Legacy shapes are padded with ones: [1,1,10,20] is [10,20]. */
function sameSizes(a: readonly number[], b: readonly number[]): boolean {
  const bare = (shape: readonly number[]) => shape.filter((dim) => dim !== 1).join();
  return bare(a) === bare(b);
}

/** An entry in the table of layers. Returns the tops, in order. */
export type ConvertLayer = (node: LayerNode) => Value | readonly Value[];
