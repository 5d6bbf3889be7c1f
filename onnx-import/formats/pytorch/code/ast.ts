/** The syntax of the Python subset in which TorchScript archives hold code. */

export type Expression =
  | { readonly kind: 'name'; readonly name: string }
  | { readonly kind: 'constant'; readonly value: null | boolean | number | string }
  | { readonly kind: 'float'; readonly value: number }
  | { readonly kind: 'attribute'; readonly of: Expression; readonly name: string }
  | {
      readonly kind: 'call';
      readonly callee: Expression;
      readonly args: readonly Argument[];
      readonly line: number;
    }
  | { readonly kind: 'list' | 'tuple'; readonly items: readonly Expression[] }
  | { readonly kind: 'dict'; readonly items: readonly (readonly [Expression, Expression])[] }
  | { readonly kind: 'subscript'; readonly of: Expression; readonly index: Expression }
  | { readonly kind: 'choice'; readonly test: Expression; readonly yes: Expression; readonly no: Expression }
  | { readonly kind: 'operator'; readonly op: string; readonly operands: readonly Expression[] };

export interface Argument {
  readonly name?: string;
  readonly value: Expression;
}

export type Statement =
  | {
      readonly kind: 'assign';
      readonly targets: readonly Target[];
      readonly value: Expression;
      readonly line: number;
    }
  | { readonly kind: 'expression'; readonly value: Expression; readonly line: number }
  | { readonly kind: 'return'; readonly value: Expression | undefined; readonly line: number }
  | {
      readonly kind: 'if';
      readonly test: Expression;
      readonly yes: readonly Statement[];
      readonly no: readonly Statement[];
      readonly line: number;
    }
  | {
      readonly kind: 'for';
      readonly target: Target;
      readonly items: Expression;
      readonly body: readonly Statement[];
      readonly line: number;
    }
  | {
      readonly kind: 'while';
      readonly test: Expression;
      readonly body: readonly Statement[];
      readonly line: number;
    }
  | {
      readonly kind: 'with';
      readonly context: Expression;
      readonly body: readonly Statement[];
      readonly line: number;
    }
  | { readonly kind: 'pass'; readonly line: number };

/** What is assigned to: one name or expression, or several that a tuple is taken apart into. */
export interface Target {
  readonly parts: readonly Expression[];
  readonly isTuple: boolean;
}

export interface Parameter {
  readonly name: string;
  /** The annotation as text, such as `Optional[Tensor]`. */
  readonly type: string;
  readonly fallback?: Expression;
}

export interface FunctionDefinition {
  readonly name: string;
  readonly parameters: readonly Parameter[];
  readonly body: readonly Statement[];
  readonly line: number;
}

export interface ClassDefinition {
  readonly name: string;
  readonly base: string;
  readonly methods: ReadonlyMap<string, FunctionDefinition>;
  /** Class constants and the annotated fields in order. */
  readonly constants: ReadonlyMap<string, Expression>;
  readonly fields: readonly string[];
}

export interface SourceFile {
  readonly functions: ReadonlyMap<string, FunctionDefinition>;
  readonly classes: ReadonlyMap<string, ClassDefinition>;
}
