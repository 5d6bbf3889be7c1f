/**
 * In: osls resolving ${file(infra/config.cjs):...}. Out: what config.ts makes of config.yaml and the parameters.
 * Trap: osls calls functions of .js and .cjs files only (an .mjs it reads as text). It wants the service's name before
 * it knows any parameter but the command line's, so `--param config=...` is read from there, and only from there.
 */
const { configOf, importTypeScript, root } = require('./typescript.cjs');

const PARAMETERS = ['auth', 'requestsPerSecond', 'respondAsync', 'redisNodes', 'logDays'];

let loading;

async function load() {
  loading ??= importTypeScript('config.ts');
  return loading;
}

async function explained(work) {
  try {
    return await work();
  } catch (error) {
    // A wrong setting is the user's to mend: osls prints the stack, which says no more than the message.
    if (error.code === 'bad_config') error.stack = error.message;
    throw error;
  }
}

module.exports = {
  async service({ options }) {
    const { readService } = await load();
    return explained(() => readService(root, configOf(options)));
  },

  async settings({ options, resolveVariable }) {
    const stage = await resolveVariable('sls:stage');
    const values = await Promise.all(PARAMETERS.map((name) => resolveVariable(`param:${name}`)));
    const parameters = Object.fromEntries(PARAMETERS.map((name, i) => [name, values[i]]));
    const { readSettings } = await load();
    return explained(() => readSettings(root, { ...parameters, config: configOf(options), stage }));
  },
};
