/** An OpenAPI document as one page without scripts, and without anything from elsewhere. */
import { escaped } from '../codecs/html.ts';
import type { Json } from './facts.ts';

const STYLE = `:root{color-scheme:light dark;--ink:#222;--ground:#fff;--line:#ddd;--code:#f6f6f6;--accent:#1668b8}
@media(prefers-color-scheme:dark){:root{--ink:#e8eaed;--ground:#181b20;--line:#3a4048;--code:#101215;--accent:#7db0f5}}
body{font:15px/1.5 system-ui,sans-serif;margin:2em auto;max-width:60em;padding:0 1em;color:var(--ink);background:var(--ground)}
h1{font-size:1.5em}h2{font-size:1.1em;margin:2em 0 .5em}a{color:var(--accent)}details{border:1px solid var(--line);border-radius:4px;margin:.4em 0}
summary{padding:.5em;cursor:pointer}details>div{padding:0 1em 1em;overflow-x:auto}code,pre{font:13px/1.4 ui-monospace,monospace}
pre{background:var(--code);padding:.7em;overflow-x:auto;max-height:25em}b{display:inline-block;min-width:4.5em;color:var(--accent)}
table{border-collapse:collapse}td,th{border-bottom:1px solid var(--line);padding:.2em .8em .2em 0;text-align:left;vertical-align:top}`;

/** What the tags of operations are called. */
const TITLES: Readonly<Record<string, string>> = {
  predict: 'Predict',
  queue: 'Queue',
  v1: 'TensorFlow Serving (/v1)',
  v2: 'Open Inference Protocol (/v2)',
  worker: 'Worker',
  service: 'Service',
};

interface Shown {
  readonly tags: readonly [string];
  readonly summary: string;
  readonly parameters?: readonly {
    readonly name: string;
    readonly in: string;
    readonly required: boolean;
    readonly description?: string;
  }[];
  readonly requestBody?: { readonly content: Readonly<Record<string, Media>> };
  readonly responses: Readonly<
    Record<string, { readonly description: string; readonly content?: Readonly<Record<string, Media>> }>
  >;
}

interface Media {
  readonly schema: Json;
  readonly example?: unknown;
}

/** @param url where the service is, for the requests that the page shows */
export function docsPage(document: Json, url: string): string {
  const { info, paths, components } = document as {
    readonly info: { readonly title: string; readonly description: string };
    readonly paths: Readonly<Record<string, Readonly<Record<string, Shown>>>>;
    readonly components: { readonly schemas: Readonly<Record<string, Json>> };
  };
  const operations = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, shown]) => ({
      tag: shown.tags[0],
      text: operationHtml(method, `${url}${path}`, path, shown),
    })),
  );
  const groups = Map.groupBy(operations, ({ tag }) => tag);
  const schemas = Object.entries(components.schemas).map(
    ([name, schema]) =>
      `<details id="${escaped(name)}"><summary>${escaped(name)}</summary><div>${json(schema)}</div></details>`,
  );
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>${escaped(info.title)}</title><style>${STYLE}</style></head>
<body><main><h1>${escaped(info.title)}</h1><p>${escaped(info.description)} The same as <a href="openapi.json">openapi.json</a>, for tools.</p>
${[...groups].map(([tag, list]) => `<h2>${escaped(TITLES[tag] ?? tag)}</h2>${list.map(({ text }) => text).join('\n')}`).join('\n')}
<h2>Schemas</h2>${schemas.join('\n')}
</main></body></html>
`;
}

function operationHtml(
  method: string,
  url: string,
  path: string,
  { summary, parameters = [], requestBody, responses }: Shown,
): string {
  const fields = parameters.map(({ name, in: where, required, description = '' }) => [
    code(name),
    `${where}${required ? ', required' : ''}`,
    words(description),
  ]);
  const bodies = Object.entries(requestBody?.content ?? {}).map(
    ([type, media]) => `<p>${code(type)}</p>${json(media.schema)}${exampleHtml(url, type, media)}`,
  );
  const answers = Object.entries(responses).map(([status, { description, content = {} }]) => [
    code(status),
    words(description),
    Object.entries(content)
      .map(([type, { schema }]) => `${code(type)} ${schemaHtml(schema)}`)
      .join('<br>'),
  ]);
  return `<details><summary><b>${method.toUpperCase()}</b><code>${escaped(path)}</code> ${escaped(summary)}</summary><div>
${fields.length > 0 ? table(fields) : ''}${bodies.join('')}${table(answers)}</div></details>`;
}

function exampleHtml(url: string, type: string, { example }: Media): string {
  if (example === undefined) return '';
  const body = JSON.stringify(example).replaceAll("'", String.raw`'\''`);
  return `<p>An example that was answered:</p><pre tabindex="0">${escaped(`curl '${url}' -H 'content-type: ${type}' -d '${body}'`)}</pre>`;
}

/** A link where the schema is only a reference. */
function schemaHtml(schema: Json): string {
  const name =
    typeof schema['$ref'] === 'string'
      ? schema['$ref'].slice(schema['$ref'].lastIndexOf('/') + 1)
      : undefined;
  if (name !== undefined) return `<a href="#${escaped(name)}">${escaped(name)}</a>`;
  const any = schema['anyOf'];
  return Array.isArray(any) ? any.map((one: Json) => schemaHtml(one)).join(' or ') : '';
}

/** A reference is a link to what it names. */
function json(value: Json): string {
  const text = words(JSON.stringify(value, undefined, 2));
  const reference = String.raw`&quot;\$ref&quot;: &quot;#/components/schemas/(\w+)&quot;`;
  const link = '<a href="#$1">$1</a>';
  const linked = text.replace(new RegExp(String.raw`\{\s*${reference}\s*\}`, 'g'), link);
  return `<pre tabindex="0">${linked.replace(new RegExp(reference, 'g'), link)}</pre>`;
}

/** Backticks stand around what is typed. */
function words(text: string): string {
  return escaped(text).replace(/`([^`]+)`/g, '<code>$1</code>');
}

function table(rows: readonly (readonly string[])[]): string {
  return `<table>${rows.map((cells) => `<tr>${cells.map((cell) => `<td>${cell}</td>`).join('')}</tr>`).join('')}</table>`;
}

function code(text: string): string {
  return `<code>${escaped(text)}</code>`;
}
