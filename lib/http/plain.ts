/**
 * Answers of POST /predict in plain JSON: each output by its name, with a value for each instance. It is the form for who
 * writes a request by hand; the contract's texts are for the clients of Cluster Serving.
 */
import { inInstance } from '../codecs/instances.ts';
import { elementAt } from '../contract/present.ts';
import { elementCount } from '../contract/tensor.ts';
import type { NamedTensor, Outcome } from '../contract/values.ts';
import {
  elementTexts,
  type Filter,
  filterText,
  needsTensors,
  nest,
  rankingOf,
} from '../pipeline/answer/postprocess.ts';
import { valueText } from '../pipeline/answer/value-text.ts';
import { assertAnswer, assertElements } from './predictions.ts';

type Answered = Extract<Outcome, { ok: true }>;

/**
 * `{"outputs":{name:[…]},"labels":{name:[…]},"model":…}`, where labels are those of the largest value of each row.
 * Instead of outputs, `filtered` has the result of the job's filter, and `values` a worker's return value that is not
 * arrays.
 * @throws the first failed instance's error with its index; too_large over Lambda's limit
 */
export function plainAnswer(
  outcomes: readonly Outcome[],
  filter: Filter | undefined,
  model: string | undefined,
): string {
  const answered = answeredOf(outcomes, filter);
  const members = [
    membersOf(answered, filter),
    ...(model === undefined ? [] : [`"model":${JSON.stringify(model)}`]),
  ];
  return assertAnswer(`{${members.join(',')}}`);
}

/** `{"predictions":[…]}`: for each instance the value of the only output, or an object of all. */
export function listAnswer(outcomes: readonly Outcome[], filter: Filter | undefined): string {
  const texts = answeredOf(outcomes, filter).map(({ value, outputs }) => {
    if (value === undefined) return filter ? filterText(outputs, filter) : valuesText(outputs);
    if (filter) throw needsTensors(filter);
    return valueText(value);
  });
  return assertAnswer(`{"predictions":[${texts.join(',')}]}`);
}

function valuesText(outputs: readonly NamedTensor[]): string {
  const [only, ...others] = outputs;
  if (only && others.length === 0) return nestedText(only);
  const members = outputs.map((output) => `${JSON.stringify(output.name)}:${nestedText(output)}`);
  return `{${members.join(',')}}`;
}

function answeredOf(outcomes: readonly Outcome[], filter: Filter | undefined): readonly Answered[] {
  if (!filter) assertElements(outcomes);
  return outcomes.map((outcome, index): Answered => {
    if (outcome.ok) return outcome;
    throw inInstance(outcome.error, index, outcomes.length);
  });
}

function membersOf(answered: readonly Answered[], filter: Filter | undefined): string {
  if (answered.some(({ value }) => value !== undefined)) {
    if (filter) throw needsTensors(filter);
    return `"values":[${answered.map(textOf).join(',')}]`;
  }
  if (filter) return `"filtered":[${answered.map(({ outputs }) => filterText(outputs, filter)).join(',')}]`;
  const [first] = answered;
  const names = first?.outputs.map(({ name }) => name) ?? [];
  const columns = names.map(
    (name, i) => [name, answered.map(({ outputs }) => elementAt(outputs, i, 'outputs'))] as const,
  );
  const outputs = columns.map(([name, rows]) => [name, rows.map(nestedText)] as const);
  const labels = columns
    .filter(([, rows]) => rows.every((row) => row.labels && row.dtype !== 'string'))
    .map(([name, rows]) => [name, rows.map(labelText)] as const);
  return [
    `"outputs":${objectOf(outputs)}`,
    ...(labels.length === 0 ? [] : [`"labels":${objectOf(labels)}`]),
  ].join();
}

function textOf({ value, outputs }: Answered): string {
  return value === undefined
    ? objectOf(outputs.map((output) => [output.name, [nestedText(output)]]))
    : valueText(value);
}

function objectOf(members: readonly (readonly [name: string, rows: readonly string[]])[]): string {
  return `{${members.map(([name, rows]) => `${JSON.stringify(name)}:[${rows.join(',')}]`).join(',')}}`;
}

function nestedText(output: NamedTensor): string {
  return nest(elementTexts(output), output.shape);
}

/** The label of the largest value; of several rows, nested like the rows. */
function labelText(output: NamedTensor): string {
  const { shape, labels = [] } = output;
  const rank = rankingOf(output);
  const width = labels.length;
  const rows = shape.slice(0, -1);
  const texts = Array.from({ length: elementCount(rows) }, (_, row) =>
    JSON.stringify(labels[rank(1, row * width, width)[0] ?? 0]),
  );
  return nest(texts, rows);
}
