/**
 * Resolves ${file(…/infra/config.cjs):…} in serverless.yml with the settings that config.ts computes from config.yaml
 * and the parameters. osls calls functions in .js and .cjs files only (it reads .mjs as text). It needs the service's
 * name before it knows the parameters of serverless.yml, so `--param config=...` is read from the command line only.
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
    // For a wrong setting the message is enough; osls prints the stack.
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
    return explained(async () => readService(serviceFolder, configOf(options)));
  },

  async settings(resolving) {
    const { readSettings } = await load();
    return explained(async () => readSettings(serviceFolder, await requestOf(resolving)));
  },
};
