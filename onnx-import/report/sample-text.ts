/** A request that a model answered, and the lines that send it. */

export interface SampleRequest {
  /** A body of POST /predict, where it is short enough to be pasted. */
  readonly body?: string;
  /** A line of JavaScript whose value is the body, where that is long. */
  readonly script?: string;
  /** The same as CSV, where columns have names. */
  readonly csv?: string;
  /** True: the file of a picture alone is a request, too. */
  readonly picture: boolean;
}

/** Lines for a person; a shell takes those that are not comments. */
export function sampleLines({ body, script, csv, picture }: SampleRequest, answer: string): string[] {
  const quoted = (text: string) => `'${text.replaceAll("'", String.raw`'\''`)}'`;
  const print = script === undefined ? `printf %s ${quoted(body ?? '')}` : `node -p ${quoted(script)}`;
  return [
    ...(picture ? ['npx cluster-serving predict photo.jpg'] : []),
    `${print} | npx cluster-serving predict -`,
    '# any other client: … | curl -d @- http://localhost:10020/predict',
    ...(csv === undefined
      ? []
      : [`printf '%s\\n' ${csv.split('\n').map(quoted).join(' ')} | npx cluster-serving predict --file -`]),
    `# answered: ${answer}`,
  ];
}
