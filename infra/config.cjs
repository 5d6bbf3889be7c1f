/**
 * Answers ${file(…/infra/config.cjs):…} of serverless.yml with what config.ts makes of config.yaml and the parameters.
 * osls calls functions of .js and .cjs files only (an .mjs it reads as text). It wants the service's name before it
 * knows any parameter but the command line's, so `--param config=...` is read from there, and only from there.
 */
const { configOf, importModule, serviceFolder } = require('./load.cjs');

let loading;

async function load() {
  loading ??= importModule('config');
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

async function requestOf({ options, resolveVariable }) {
  const { PARAMETER_NAMES } = await load();
  const stage = await resolveVariable('sls:stage');
  const values = await Promise.all(PARAMETER_NAMES.map((name) => resolveVariable(`param:${name}`)));
  return {
    stage,
    config: configOf(options),
    parameters: Object.fromEntries(PARAMETER_NAMES.map((name, i) => [name, values[i]])),
    named: [options.param ?? []].flat().map((text) => text.slice(0, text.indexOf('='))),
  };
}

module.exports = {
  async service({ options }) {
    const { readService } = await load();
    return explained(() => readService(serviceFolder, configOf(options)));
  },

  async settings(resolving) {
    const { readSettings } = await load();
    return explained(async () => readSettings(serviceFolder, await requestOf(resolving)));
  },
};
