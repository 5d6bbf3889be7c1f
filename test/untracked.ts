/**
 * Keeps node:test from following each promise, which takes up to a fifth of the time of a test with many requests. An error
 * that nobody awaits still fails the file, but is reported beside the tests instead of under the one that caused it; run that
 * file alone to see which. Must be evaluated before node:test is loaded. A Node that does not know the option ignores it.
 */
import hooks, { type HookCallbacks } from 'node:async_hooks';

const { createHook } = hooks;
const untracked = { trackPromises: false };
hooks.createHook = (callbacks: HookCallbacks) => createHook({ ...callbacks, ...untracked });
