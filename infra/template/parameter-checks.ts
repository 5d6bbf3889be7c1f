/** Checks the values of parameters, one by one. An empty text means "not given". */

/** Texts from the command line; values from a file may be numbers. */
export type Values = Readonly<Record<string, string | number>>;

const TOPIC = /^arn:aws[a-z-]*:sns:[a-z0-9-]+:\d{12}:[A-Za-z0-9_-]{1,256}$/;

/** Whether parameters contradict each other, and how that is said. */
export type Rule = readonly [isBroken: boolean, problem: string];

export function broken(rules: readonly Rule[]): string[] {
  return rules.filter(([is]) => is).map(([, problem]) => problem);
}

/** Adds each problem to `problems` and continues. */
export class Checks {
  readonly #given: Values;
  readonly #problems: string[];

  constructor(given: Values, problems: string[]) {
    this.#given = given;
    this.#problems = problems;
  }

  oneOf<T extends string>(name: string, allowed: readonly T[]): T {
    const found = allowed.find((value) => value === this.#given[name]);
    if (found === undefined) this.#refuse(name, allowed.map((value) => `"${value}"`).join(', '));
    return found ?? (allowed[0] as T);
  }

  whole(name: string, min: number, max: number): number {
    const number = this.#number(name);
    if (!Number.isInteger(number) || number < min || number > max)
      this.#refuse(name, `a whole number from ${min} to ${max}`);
    return number;
  }

  among(name: string, allowed: readonly number[]): number {
    const number = this.#number(name);
    if (!allowed.includes(number)) this.#refuse(name, `one of ${allowed.join(', ')}`);
    return number;
  }

  /** Empty is allowed and means not given. */
  matches(name: string, pattern: RegExp, expected: string): string {
    const text = String(this.#given[name]);
    if (text !== '' && !pattern.test(text)) this.#refuse(name, expected);
    return text;
  }

  list(name: string, pattern: RegExp, expected: string): string[] {
    const text = String(this.#given[name]);
    const parts = text === '' ? [] : text.split(',').map((part) => part.trim());
    if (!parts.every((part) => pattern.test(part)) || new Set(parts).size < parts.length)
      this.#refuse(name, expected);
    return parts;
  }

  alarmTopic(): string {
    const text = String(this.#given['alarmTopic']);
    if (text !== 'none' && text !== 'own' && !TOPIC.test(text))
      this.#refuse('alarmTopic', '"none", "own" or the ARN of an SNS topic');
    return text;
  }

  #number(name: string): number {
    const given = this.#given[name];
    return given === '' ? Number.NaN : Number(given);
  }

  #refuse(name: string, expected: string): void {
    this.#problems.push(`param ${name} ${JSON.stringify(this.#given[name])}: expected ${expected}`);
  }
}
