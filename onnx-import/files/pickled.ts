/** What a pickle holds, as plain data. */

/** A name such as `torch.FloatStorage`. */
export class PickledGlobal {
  readonly name: string;
  constructor(name: string) {
    this.name = name;
  }
}

/** What REDUCE or NEWOBJ would have made. */
export class PickledCall {
  readonly callee: Pickled;
  readonly args: Pickled;
  /** Set by BUILD. */
  state: Pickled = null;
  /** Set by SETITEMS (an OrderedDict) and APPENDS. */
  readonly items = new Map<Pickled, Pickled>();
  readonly list: Pickled[] = [];
  /** Later calls that take this one first: cloudpickle sets the state of a class by such a call. */
  readonly uses: PickledCall[] = [];
  constructor(callee: Pickled, args: Pickled) {
    this.callee = callee;
    this.args = args;
  }

  get name(): string {
    return this.callee instanceof PickledGlobal ? this.callee.name : '';
  }

  get operands(): readonly Pickled[] {
    return this.args instanceof PickledTuple ? this.args.items : [];
  }
}

/** A reference to something outside of the pickle, such as a storage. */
export class PickledPersistent {
  readonly id: Pickled;
  constructor(id: Pickled) {
    this.id = id;
  }
}

export class PickledTuple {
  readonly items: readonly Pickled[];
  constructor(items: readonly Pickled[]) {
    this.items = items;
  }
}

/** A float, which JavaScript would not tell from an int. */
export class PickledFloat {
  readonly value: number;
  constructor(value: number) {
    this.value = value;
  }
}

export type Pickled =
  | null
  | boolean
  | number
  | string
  | Uint8Array
  | Pickled[]
  | Map<Pickled, Pickled>
  | Set<Pickled>
  | PickledGlobal
  | PickledCall
  | PickledPersistent
  | PickledTuple
  | PickledFloat;
