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

/** How the service that is to serve the model is spoken of. */
export interface ServiceWords {
  /** Its file of settings. */
  readonly settings: string;
  /** Its command that asks the model. */
  readonly predict: string;
  /** Where any other client asks. */
  readonly url: string;
}

/** Lines for a person; a shell takes those that are not comments. */
export function sampleLines(
  { body, script, csv, picture }: SampleRequest,
  answer: string,
  { predict, url }: ServiceWords,
): string[] {
  const quoted = (text: string) => `'${text.replaceAll("'", String.raw`'\''`)}'`;
  const print = script === undefined ? `printf %s ${quoted(body ?? '')}` : `node -p ${quoted(script)}`;
  return [
    ...(picture ? [`${predict} photo.jpg`] : []),
    `${print} | ${predict} -`,
    `# any other client: … | curl -d @- ${url}`,
    ...(csv === undefined
      ? []
      : [`printf '%s\\n' ${csv.split('\n').map(quoted).join(' ')} | ${predict} --file -`]),
    `# answered: ${answer}`,
  ];
}
