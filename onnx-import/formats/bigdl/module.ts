/**
 * A module of the file: its type, attributes, weights and children. Attributes are named after the parameters of the
 * module's constructor. A rule that leaves one unread may not know what it does, so such a module is refused.
 */
import { badModel } from '../../../lib/contract/errors.ts';
import {
  flagOf,
  has,
  mapOf,
  messageOf,
  messagesOf,
  numberOf,
  numbersOf,
  plainNumbersOf,
  textOf,
  textsOf,
} from '../../wire/message.ts';
import type { Message } from '../../wire/table.ts';
import { attributeOf, type Storages, type Weights } from './tensors.ts';

/** Attributes for training, or for BigDL's own bookkeeping. */
const WITHOUT_EFFECT =
  /^(module_(numerics|tags)|global_storage|is_(keras|cell)_module|\w*Regularizer|init(Grad|Depth|Point)?(Weight|Bias)|initMethod|propagateBack|ip|inplace|inPlace|isInplace|momentum|save(Mean|Std)|indices|scaleGradByFreq|shouldScaleGradByFreq|fastBackward|contiguousOutput|group_type)$/;

/** The names under which one module was saved: BigDL 0.x, BigDL 2.x (dllib) and Analytics Zoo. */
const PACKAGES = /^com\.intel\.analytics\.(bigdl\.(dllib\.)?|zoo\.pipeline\.api\.)/;

export class Module {
  readonly message: Message;
  readonly storages: Storages;
  /** Without its package: nn.Linear, nn.quantized.Linear, keras.layers.Dense. */
  readonly type: string;
  readonly #read = new Set<string>();

  constructor(message: Message, storages: Storages) {
    this.message = message;
    this.storages = storages;
    this.type = textOf(message, 'moduleType').replace(PACKAGES, '');
  }

  /** The given name, or the one that BigDL makes. */
  get name(): string {
    const simple = this.type.slice(this.type.lastIndexOf('.') + 1);
    return textOf(this.message, 'name') || simple + textOf(this.message, 'namePostfix');
  }

  get children(): readonly Module[] {
    return messagesOf(this.message, 'subModules').map((child) => new Module(child, this.storages));
  }

  /** The modules that attributes hold. */
  held(): readonly Module[] {
    const values = [...mapOf(this.message, 'attr').values()] as Message[];
    const held = values.flatMap((value) => {
      const array = messageOf(value, 'array');
      return [messageOf(value, 'module'), ...(array ? messagesOf(array, 'module') : [])];
    });
    return held
      .filter((message) => message !== undefined && has(message, 'moduleType'))
      .map((message) => new Module(message as Message, this.storages));
  }

  /** Whether it writes its result over its input. */
  get isInPlace(): boolean {
    const names = ['ip', 'inplace', 'inPlace', 'isInplace'];
    return names.some((name) => flagOf(attributeOf(this.message, name) ?? {}, 'bool'));
  }

  get attributes(): readonly string[] {
    return [...mapOf(this.message, 'attr').keys()].map(String);
  }

  get before(): readonly string[] {
    return textsOf(this.message, 'preModules');
  }

  #attribute(name: string): Message | undefined {
    this.#read.add(name);
    return attributeOf(this.message, name);
  }

  #value<T>(
    name: string,
    fields: readonly string[],
    read: (value: Message, field: string) => T,
  ): T | undefined {
    const value = this.#attribute(name);
    const field = value && fields.find((each) => has(value, each));
    return value && field !== undefined ? read(value, field) : undefined;
  }

  /** @throws bad_model when it is missing and there is no fallback */
  number(name: string, fallback?: number): number {
    const number = this.#value(name, ['int32', 'int64', 'float', 'double'], numberOf) ?? fallback;
    if (number !== undefined) return number;
    throw badModel(`has no number "${name}"`);
  }

  /** A whole number. */
  int(name: string, fallback?: number): number {
    const number = this.number(name, fallback);
    if (Number.isInteger(number)) return number;
    throw badModel(`"${name}" is ${number}, expected a whole number`);
  }

  flag(name: string, fallback = false): boolean {
    return this.#value(name, ['bool'], flagOf) ?? fallback;
  }

  text(name: string): string | undefined {
    return this.#value(name, ['string'], textOf);
  }

  /** Whether a module with images has its channels last. */
  channelsLast(name = 'format'): boolean {
    const text = this.text(name);
    if (text !== undefined && !/^channel_(first|last)$/i.test(text)) throw badModel(`"${name}" is ${text}`);
    return text === undefined ? this.#value(name, ['format'], numberOf) === 1 : /last$/i.test(text);
  }

  /** A list of numbers; undefined when it is null. */
  list(name: string): number[] | undefined {
    const array = this.#array(name);
    const field = array && ['i32', 'i64', 'flt', 'dbl'].find((each) => numbersOf(array, each) !== undefined);
    if (!array) return undefined;
    return field === undefined ? [] : plainNumbersOf(array, field);
  }

  /** A list that must not be null. */
  numbers(name: string, count?: number): number[] {
    const list = this.list(name);
    if (list && (count === undefined || list.length === count)) return list;
    throw badModel(`"${name}" is ${list ? `[${list.slice(0, 20).join(',')}]` : 'missing'}`);
  }

  texts(name: string): readonly string[] {
    const array = this.#array(name);
    return array ? textsOf(array, 'str') : [];
  }

  #array(name: string): Message | undefined {
    const array = this.#value(name, ['array'], messageOf);
    return array && numberOf(array, 'size') >= 0 ? array : undefined;
  }

  module(name: string): Module | undefined {
    const message = this.#value(name, ['module'], messageOf);
    return message && has(message, 'moduleType') ? new Module(message, this.storages) : undefined;
  }

  /** The entries of a named list as whole numbers. */
  entries(name: string): ReadonlyMap<string, number> {
    const named = this.#value(name, ['named'], messageOf);
    return new Map(
      [...(named ? mapOf(named, 'attr') : [])].map(([key, value]) => [
        String(key),
        numberOf(value as Message, 'int32'),
      ]),
    );
  }

  tensor(name: string): Weights | undefined {
    const tensor = this.#value(name, ['tensor'], messageOf);
    return tensor && this.storages.read(tensor);
  }

  /** The weights in their order. Files before version 0.5 have a weight and a bias instead. */
  get parameters(): (Weights | undefined)[] {
    const { message } = this;
    const tensors = flagOf(message, 'hasParameters')
      ? messagesOf(message, 'parameters')
      : [messageOf(message, 'weight'), messageOf(message, 'bias')].filter((tensor) => tensor !== undefined);
    return tensors.map((tensor) => this.storages.read(tensor));
  }

  /** Names attributes whose effect is known not to matter for this module. */
  ignore(...names: readonly string[]): void {
    for (const name of names) this.#read.add(name);
  }

  /** @throws bad_model naming the attributes that nothing has read */
  assertRead(): void {
    const spare = [...mapOf(this.message, 'attr').keys()].filter(
      (name) => !this.#read.has(String(name)) && !WITHOUT_EFFECT.test(String(name)),
    );
    if (spare.length > 0)
      throw badModel(`has attributes that are not known: ${spare.slice(0, 10).join(', ')}`);
  }
}
