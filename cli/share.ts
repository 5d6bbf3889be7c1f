/** Reads a share as config.yaml does. */
import { SHARE } from '../lib/config/capture-settings.ts';
import { unexpected } from './command.ts';

/** @param option without its dashes. @throws bad_config */
export function readShare(option: string, text: string): number {
  const share = SHARE.read(text);
  if (share !== undefined) return share;
  throw unexpected(option, SHARE.expected, text);
}
