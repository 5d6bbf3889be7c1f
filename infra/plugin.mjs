/**
 * The osls plugin behind `serverless package`, `deploy` and `publish`: builds dist/<function>/ before osls zips it,
 * and uploads the model after a deployment or alone. osls uses the default export only and may load this file with
 * require, so there is no top-level await.
 */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, relative, resolve } from 'node:path';
import { configOf, importModule, isCheckout, ofOsls, packageFolder, SAMPLE, serviceFolder } from './load.cjs';

const PROCESSORS = { x86_64: 'x64', arm64: 'arm64' };
/** Stands for the image while osls compiles the functions of a package, whose template takes it as a parameter. */
const UNBUILT = `unbuilt@sha256:${'0'.repeat(64)}`;
const IMAGE_PARAMETER = 'WorkerImage';
const DOCKER_MS = 30_000;

class BundlePlugin {
  constructor(serverless, options, { log, progress }) {
    this.serverless = serverless;
    this.options = options;
    this.log = log;
    this.progress = progress;
    this.commands = {
      publish: {
        usage: 'Upload the model of config.yaml and let it serve',
        lifecycleEvents: ['publish'],
        options: {
          'drop-golden': {
            usage: 'Neither ask nor keep the golden requests of the version that serves now',
            type: 'boolean',
          },
        },
      },
    };
    this.hooks = {
      // When variables have their values, and before the functions are read.
      initialize: () => {
        const { functions, custom } = this.serverless.service;
        for (const name of custom?.settings?.absentFunctions ?? []) delete functions[name];
      },
      'before:package:createDeploymentArtifacts': async () => {
        // First, so that a model that cannot serve stops a package or deploy before anything is created.
        await this.during('Looking at the model', () => this.prepare());
        if (this.isDeploy()) await this.during('Looking at the stack', () => this.assertDeployable());
        await this.during('Bundling the functions', () => this.bundle());
      },
      'after:package:createDeploymentArtifacts': () => this.showSizes(),
      // The first moment with all resources in the template: what osls makes is among them.
      'after:aws:package:finalize:mergeCustomProviderResources': () => this.applyConventions(),
      'before:package:compileFunctions': () => this.chooseImage(),
      'after:package:compileFunctions': () => this.askForImage(),
      // Checks an existing package, which the hooks above do not see.
      'before:deploy:deploy': async () => {
        if (!this.isLookedAt) await this.during('Looking at the stack', () => this.assertDeployable());
      },
      error: (error) => this.advise(error),
      'after:deploy:deploy': () => this.during('Publishing the model', () => this.publish()),
      'publish:publish': () => this.during('Publishing the model', () => this.publish()),
    };
  }

  async during(message, work) {
    const running = this.progress.create({ message });
    try {
      await work();
    } catch (error) {
      // Errors that the user can fix are shown without a stack, as osls shows its own.
      const { Error: Told } = this.serverless.classes ?? {};
      const isTheirs = error.name === 'ServingError' && error.code !== 'internal';
      throw Told && isTheirs ? new Told(error.message, error.code) : error;
    } finally {
      running.remove();
    }
  }

  async prepare() {
    if (configOf(this.options) === SAMPLE && existsSync(join(serviceFolder, 'config.yaml')))
      this.log.notice('the sample has a config of its own: config.yaml is not used');
    const { prepareModel } = await importModule('publish');
    const { directory, isThere, notes } = await prepareModel({
      root: serviceFolder,
      config: configOf(this.options),
      client: () => this.serverless.getProvider('aws').getAwsSdkV3Config(),
    });
    for (const note of notes) this.log.notice(note);
    const { assertRegion } = await importModule('account/targets');
    assertRegion(this.serverless.service.custom.settings, this.serverless.getProvider('aws').getRegion());
    this.missingModel = isThere || (await this.isWorker()) ? undefined : directory;
    if (isThere) return;
    const lack = await this.lack('the stack will have no model yet');
    this.log.notice(`no model directory ${directory}: ${lack}`);
  }

  /** Consequences of having no model directory; a worker needs none. */
  async lack(ofModel) {
    return (await this.isWorker()) ? 'the worker gets an empty folder' : ofModel;
  }

  async isWorker() {
    const { readJobConfig } = await importModule('template/config');
    return readJobConfig(serviceFolder, configOf(this.options)).job.worker.class !== undefined;
  }

  isDeploy() {
    return this.serverless.processedInput.commands[0] === 'deploy';
  }

  async assertDeployable() {
    this.isLookedAt = true;
    const provider = this.serverless.getProvider('aws');
    const { settings } = this.serverless.service.custom;
    const { jobName, sharedRedis, network } = settings;
    const { missingModel } = this;
    const planned = { stackName: provider.naming.getStackName(), jobName, missingModel, network };
    const { assertDeployable, outputsOf } = await importModule('account/deployed-stack');
    const cloudFormation = await provider.getCloudFormationClient();
    const outputs = (stack) => outputsOf((command) => cloudFormation.send(command), stack, ofOsls);
    const deployed = await outputs(planned.stackName);
    if (sharedRedis) {
      const { assertSharedRedis } = await importModule('template/shared-redis');
      assertSharedRedis(await outputs(sharedRedis.stack), sharedRedis);
    }
    const { assertNotified } = await importModule('account/targets');
    await assertNotified(provider, settings, ofOsls, this.log);
    const { GetTemplateCommand } = ofOsls('@aws-sdk/client-cloudformation');
    await assertDeployable(deployed, planned, {
      template: () => cloudFormation.send(new GetTemplateCommand({ StackName: planned.stackName })),
    });
  }

  async applyConventions() {
    const { applyConventions } = await importModule('template/conventions');
    const { provider, custom } = this.serverless.service;
    applyConventions(provider.compiledCloudFormationTemplate.Resources, custom.settings.conventions);
  }

  /** Adds what to do to an error of AWS that names no parameter of ours. */
  async advise({ message }) {
    const { adviceOn } = await importModule('account/advice');
    const { provider, custom } = this.serverless.service;
    const { zones = [] } = custom?.settings ?? {};
    const named = zones.filter((zone) => typeof zone === 'string');
    const deploying = { zones: named, region: provider.region, stage: provider.stage };
    for (const line of adviceOn(String(message), deploying)) this.log.error(line);
  }

  /** Also reports the keys of an old config.yaml that have another equivalent here. */
  async bundle() {
    const { configPath, readJobConfig } = await importModule('template/config');
    const config = configOf(this.options);
    const { job, notes } = readJobConfig(serviceFolder, config);
    for (const note of notes) this.log.notice(note);
    const processor = PROCESSORS[this.serverless.service.provider.architecture];
    const request = {
      root: packageFolder,
      processor,
      outFolder: relative(packageFolder, join(serviceFolder, 'dist')),
      results: this.serverless.service.custom.settings.results,
      functions: this.serverless.service.functions,
    };
    this.bundles = await this.makeFunctions(request);
    if (job.worker.class !== undefined) {
      const code = { worker: job.worker.class, directory: dirname(configPath(serviceFolder, config)) };
      if (this.imageFunctions().length > 0) await this.writeImage(code, job);
      else {
        const { addWorker } = await importModule('build/worker');
        const from = isCheckout ? join(packageFolder, 'lib') : packageFolder;
        await addWorker(this.bundles, { ...code, build: this.bundler().build, from, processor });
      }
    }
    this.log.info(`bundled for ${processor}: ${this.bundles.map(({ name }) => name).join(', ')}`);
  }

  /** Those of a worker in Python. */
  imageFunctions() {
    return Object.entries(this.serverless.service.functions).filter(([, { image }]) => image);
  }

  async writeImage(code, { modelPath, worker }) {
    const { IMAGE_FOLDER, imagePython, writeImage } = await importModule('build/worker-image');
    this.imageFolder = IMAGE_FOLDER;
    const modules = await writeImage({
      ...code,
      functions: this.bundles,
      folder: join(serviceFolder, IMAGE_FOLDER),
      modelDirectory: resolve(code.directory, modelPath),
      package: join(packageFolder, 'python', 'wkr_serving'),
      python: imagePython(worker),
    });
    const count = `${modules.length} Python file${modules.length === 1 ? '' : 's'}`;
    this.log.notice(`${IMAGE_FOLDER}: the image of predict and batch, with ${count} of ${code.directory}`);
  }

  /** A deployment builds and uploads the image, unless there is one; packaging does neither, so it needs no AWS. */
  async chooseImage() {
    const unbuilt = this.imageFunctions().filter(([, { image }]) => image.name);
    if (unbuilt.length === 0) return;
    if (this.isDeploy()) return this.needDocker();
    this.unbuilt = unbuilt.map(([name]) => name);
    for (const [, fn] of unbuilt) fn.image = { uri: UNBUILT, command: fn.image.command };
    this.log.notice(
      `the image is not built yet: \`serverless deploy\` builds and uploads it with docker. Or ${this.ownBuild()}`,
    );
  }

  /** Checked before osls creates a repository. `docker --version`, as osls asks, needs no daemon. */
  async needDocker() {
    const error = await new Promise((done) => execFile('docker', ['info'], { timeout: DOCKER_MS }, done));
    if (!error) return;
    throw new this.serverless.classes.Error(
      `the worker in Python needs an image, and docker does not answer: install or start it. Or ${this.ownBuild()}`,
    );
  }

  ownBuild() {
    const { platform } = this.serverless.service.provider.ecr.images.worker;
    const build = `docker build --platform ${platform} --provenance=false ${this.imageFolder}`;
    return `build it elsewhere with \`${build}\`, upload it to ECR, and deploy with --param workerImage=<uri>@sha256:<digest>`;
  }

  /** CloudFormation refuses the template without the parameter, before it creates anything. */
  askForImage() {
    if (!this.unbuilt) return;
    const { compiledCloudFormationTemplate: template } = this.serverless.service.provider;
    const { naming } = this.serverless.getProvider('aws');
    template.Parameters = {
      ...template.Parameters,
      [IMAGE_PARAMETER]: { Type: 'String', Description: 'Image of the worker, in ECR in this region' },
    };
    for (const name of this.unbuilt) {
      template.Resources[naming.getLambdaLogicalId(name)].Properties.Code = {
        ImageUri: { Ref: IMAGE_PARAMETER },
      };
    }
    // Only their digest is not known; CloudFormation does not need it.
    for (const { Type, Properties } of Object.values(template.Resources))
      if (Type === 'AWS::Lambda::Version') delete Properties.CodeSha256;
  }

  /** The published package has no such script. */
  bundler() {
    try {
      return createRequire(join(serviceFolder, 'package.json'))('esbuild');
    } catch {
      throw new this.serverless.classes.Error('a worker needs esbuild: npm install --save-dev esbuild');
    }
  }

  /** The published package contains the bundles, so that the tested code is deployed. */
  async makeFunctions(request) {
    if (isCheckout) return (await importModule('build/functions')).buildFunctions(request);
    return (await importModule('build/prebuilt')).copyFunctions(request);
  }

  async showSizes() {
    const { sizeTable } = await importModule('build/sizes');
    const { functions } = this.serverless.service;
    const lines = await sizeTable(functions, this.bundles, join(serviceFolder, '.serverless'));
    for (const line of lines) this.log.notice(line);
  }

  async publish() {
    const provider = this.serverless.getProvider('aws');
    const { publishJob } = await importModule('publish');
    const { directory, version, notes, further } = await publishJob({
      root: serviceFolder,
      config: configOf(this.options),
      bucket: await this.bucket(provider),
      dropGolden: this.options['drop-golden'],
      client: await provider.getAwsSdkV3Config(),
    });
    for (const note of notes) this.log.notice(note);
    if (version === undefined) {
      const lack = await this.lack('/ready answers 503 until "serverless publish" finds one');
      this.log.warning(`no model directory ${directory}: ${lack}`);
    } else {
      this.log.notice(`model ${version} from ${directory} serves from now on`);
    }
    if (further.length > 0) this.log.notice(`further models serve, too: ${further.join(', ')}`);
  }

  /** The name that CloudFormation gave to the resource Bucket. */
  async bucket(provider) {
    const { DescribeStackResourceCommand } = ofOsls('@aws-sdk/client-cloudformation');
    const cloudFormation = await provider.getCloudFormationClient();
    const StackName = provider.naming.getStackName();
    const { StackResourceDetail } = await cloudFormation.send(
      new DescribeStackResourceCommand({ StackName, LogicalResourceId: 'Bucket' }),
    );
    return StackResourceDetail.PhysicalResourceId;
  }
}

export { BundlePlugin as default };
