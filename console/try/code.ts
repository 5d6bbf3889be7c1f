/** The lines that ask the service what the form asked, for three languages. */
import type { Caller } from '../api.ts';
import type { Field } from './request.ts';

export const LANGUAGES = ['curl', 'TypeScript', 'Python'] as const;
export type Language = (typeof LANGUAGES)[number];

interface Asked {
  readonly caller: Caller;
  /** Where the service is: the origin of the page, or the API of a deployment. */
  readonly url: string;
}

/** POST /predict with these fields. */
export function predictLines(language: Language, { caller, url }: Asked, fields: readonly Field[]): string {
  const [image] = fields.filter(({ kind }) => kind === 'image');
  if (language === 'curl') return curlPredict(url, caller, fields);
  if (language === 'TypeScript') {
    const read = fields
      .filter(({ kind }) => kind === 'image')
      .map(
        ({ fileName }, i) =>
          `const picture${i || ''} = (await readFile(${text(fileName)})).toString('base64');`,
      );
    let images = 0;
    const members = fields.map(({ name, kind, json }) => {
      const value = kind === 'image' ? `picture${images++ || ''}` : json;
      return `${/^[A-Za-z_]\w*$/.test(name) ? name : JSON.stringify(name)}: ${value}`;
    });
    const lines = [
      ...(image ? ["import { readFile } from 'node:fs/promises';"] : []),
      `import { ${caller.stack ? 'connect' : 'InputQueue'} } from 'cluster-serving';`,
      '',
      ...openTypeScript(caller, url),
      ...read,
      `const [answer] = await input.predict({ instances: [{ ${members.join(', ')} }] });`,
      'console.log(answer);',
    ];
    return lines.join('\n');
  }
  const members = fields.map(({ name, kind, json, fileName }) => {
    const value =
      kind === 'image' ? JSON.stringify(fileName) : kind === 'text' ? `[${python(json)}]` : python(json);
    return `${python(JSON.stringify(name))}: ${value}`;
  });
  return [...openPython(caller, url), `print(client.predict({${members.join(', ')}}).outputs)`].join('\n');
}

/** POST /encode_json with this JSON, for a worker. */
export function encodeLines(language: Language, { caller, url }: Asked, json: string): string {
  if (language === 'curl') return curl(url, caller, '/encode_json', `-d ${quoted(json)}`);
  const token = caller.auth === 'token';
  if (language === 'TypeScript') {
    const options = [`url: ${text(url)}`, ...(token ? ['token: process.env.TOKEN'] : [])].join(', ');
    return [
      "import { WKRClient } from 'cluster-serving/worker-client';",
      '',
      `const client = new WKRClient({ ${options} });`,
      `console.log(await client.encode(${json}));`,
    ].join('\n');
  }
  return [
    ...(token ? ['import os'] : []),
    'from wkr_serving.client import WKRClient',
    '',
    `with WKRClient(url=${JSON.stringify(url)}${token ? ', token=os.environ["TOKEN"]' : ''}) as client:`,
    `    print(client.encode(${python(json)}))`,
  ].join('\n');
}

function curlPredict(url: string, caller: Caller, fields: readonly Field[]): string {
  const images = fields.filter(({ kind }) => kind === 'image');
  if (images.length === 0) {
    const members = fields.map(({ name, json }) => `${JSON.stringify(name)}: ${json}`).join(', ');
    return curl(url, caller, '/predict', `-d ${quoted(`{"instances": [{${members}}]}`)}`);
  }
  // A picture does not fit into the arguments of a command, so it goes through a pipe.
  const members = fields.map(({ name, kind, json }) => {
    const value = kind === 'image' ? '"%s"' : json.replaceAll('%', '%%').replaceAll('\\', '\\\\');
    return `${JSON.stringify(name).replaceAll('%', '%%').replaceAll('\\', '\\\\')}: ${value}`;
  });
  const files = images.map(({ fileName }) => `"$(base64 < ${quoted(fileName)} | tr -d '\\n')"`).join(' ');
  const format = quoted(`{"instances": [{${members.join(', ')}}]}`);
  return `printf ${format} \\\n  ${files} |\n${curl(url, caller, '/predict', '--data-binary @-')}`;
}

/** Each option has a line of its own, which the shell joins. */
function curl(url: string, { auth, region = '$AWS_REGION' }: Caller, path: string, data: string): string {
  const access: Readonly<Record<Caller['auth'], readonly string[]>> = {
    none: [],
    token: ['-H "Authorization: Bearer $TOKEN"'],
    jwt: ['-H "Authorization: Bearer $TOKEN"'],
    'api-key': ['-H "x-api-key: $API_KEY"'],
    iam: [
      `--aws-sigv4 "aws:amz:${region}:execute-api"`,
      '--user "$AWS_ACCESS_KEY_ID:$AWS_SECRET_ACCESS_KEY"',
      '-H "x-amz-security-token: $AWS_SESSION_TOKEN"',
    ],
  };
  const options = ["-H 'content-type: application/json'", ...access[auth], data];
  return [`curl ${quoted(url + path)}`, ...options].join(' \\\n  ');
}

function openTypeScript({ stack, auth }: Caller, url: string): string[] {
  if (stack) return [`const { input } = await connect({ stack: ${text(stack)} });`];
  const token = auth === 'token' ? ', token: process.env.TOKEN' : '';
  return [`const input = new InputQueue({ frontendUrl: ${text(url)}${token} });`];
}

function openPython({ stack, auth }: Caller, url: string): string[] {
  if (stack) return ['from cluster_serving import connect', '', `client = connect(${JSON.stringify(stack)})`];
  const token = auth === 'token';
  return [
    ...(token ? ['import os'] : []),
    'from cluster_serving import Client',
    '',
    `client = Client(${JSON.stringify(url)}${token ? ', token=os.environ["TOKEN"]' : ''})`,
  ];
}

/** A text of TypeScript. */
function text(value: string): string {
  return `'${JSON.stringify(value).slice(1, -1).replaceAll(String.raw`\"`, '"').replaceAll("'", String.raw`\'`)}'`;
}

/** A word of a POSIX shell. */
function quoted(value: string): string {
  return `'${value.replaceAll("'", String.raw`'\''`)}'`;
}

const CONSTANTS: Readonly<Record<string, string>> = { true: 'True', false: 'False', null: 'None' };

/** JSON as Python writes it. */
function python(json: string): string {
  return json.replaceAll(/"(?:[^"\\]|\\.)*"|true|false|null/g, (token) =>
    token.startsWith('"') ? JSON.stringify(JSON.parse(token)) : (CONSTANTS[token] as string),
  );
}
