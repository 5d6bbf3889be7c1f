/**
 * Selects the deploy net among the files of a Caffe model, which often has a solver and a training net too. Several
 * results mean that the user must choose. Some nets are called `test.pt` like PyTorch archives; they count if there
 * are Caffe weights and no other net.
 */
export function chosenNets(names: readonly string[]): readonly string[] {
  const texts = names.filter((name) => /\.(prototxt|pt)(\.txt)?$/i.test(name) && !/\.pt$/i.test(name));
  const hasWeights = names.some((name) => /\.caffemodel$/i.test(name));
  const nets = texts.length > 0 || !hasWeights ? texts : names.filter((name) => /\.pt$/i.test(name));
  const served = nets.filter((name) => !/solver/i.test(name));
  const deployed = served.filter((name) => /deploy/i.test(name));
  return served.length > 1 && deployed.length === 1 ? deployed : served;
}
