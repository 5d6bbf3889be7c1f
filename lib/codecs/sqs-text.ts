/** JSON as SQS and SNS take it. */

/**
 * JSON may contain U+FFFE and U+FFFF, but SQS and SNS accept neither, because they are not characters. JSON can escape them.
 */
export function forSqs(json: string): string {
  return json.replace(/[\ufffe\uffff]/g, (unit) => (unit === '\ufffe' ? '\\ufffe' : '\\uffff'));
}
