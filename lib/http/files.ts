/** Records that come as files: an image that is the whole body, or a form whose fields are images and texts. */
import { isPicture } from '../codecs/image/signatures.ts';
import { UNNAMED } from '../codecs/instances.ts';
import { quoteName } from '../codecs/quote.ts';
import { decodeUtf8 } from '../codecs/utf8.ts';
import { badRequest } from '../contract/errors.ts';
import type { Inputs, Value } from '../contract/values.ts';
import type { HttpRequest } from './request.ts';

/** That of nearly every JSON. */
const BRACE = 0x7b;

/** The first bytes of an image begin no JSON, so that curl needs no content type. */
export function isImage(type: string, body: Uint8Array): boolean {
  return type.startsWith('image/') || (body[0] !== BRACE && isPicture(body));
}

export function imageRecord(bytes: Uint8Array): Inputs {
  return new Map([[UNNAMED, { kind: 'image', bytes }]]);
}

export function isForm(type: string): boolean {
  return type === 'multipart/form-data';
}

const URI = 'uri';

/**
 * The fields of a form as the inputs of one record: images as images, everything else as text. The field `uri` is none.
 * @throws bad_request, too_large
 */
export async function formRecord(
  request: Pick<HttpRequest, 'headers' | 'body'>,
): Promise<{ readonly inputs: Inputs; readonly uri: string | undefined }> {
  // Loaded on demand: few requests are forms.
  const { readForm } = await import('./worker/form.ts');
  const inputs = new Map<string, Value>();
  let uri: string | undefined;
  for (const [name, content] of readForm(request)) {
    const bytes = typeof content === 'string' ? Buffer.from(content) : content;
    if (name !== URI && isPicture(bytes)) {
      inputs.set(name, { kind: 'image', bytes });
      continue;
    }
    const text = decodeUtf8(bytes);
    if (text === undefined)
      throw badRequest(`the field ${quoteName(name)} of the form is neither a known image nor text in UTF-8`);
    if (name === URI) uri = text;
    else inputs.set(name, { kind: 'tensor', tensor: { dtype: 'string', shape: [], data: [text] } });
  }
  if (inputs.size === 0) throw badRequest('the form has no field for an input of the model');
  return { inputs, uri };
}
