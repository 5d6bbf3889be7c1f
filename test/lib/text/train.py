"""
Trains the small tokenizers of this folder and writes what Hugging Face's tokenizers (0.23) make of texts in many scripts:
pip install tokenizers==0.23.3 sentencepiece, then python3 test/lib/text/train.py. Needed by no test.
"""
import base64
import gzip
import io
import json
import os
import random

from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'tokenizers')
random.seed(7)

SENTENCES = [
    'The quick brown fox jumps over the lazy dog, doesn\'t it?', 'We\'ll see; they\'ve said I\'m right and you\'d agree.',
    'Café déjà vu, naïve façade, Ångström, Łódź, smörgåsbord, İstanbul, straße.', 'Ελληνικά: ΟΔΥΣΣΕΥΣ ταξίδεψε στην Αθήνα, ΑΣ ΤΟΣ.',
    'Съешь же ещё этих мягких французских булок, да выпей чаю.', 'مرحبا بالعالم، كيف حالُكَ اليومَ؟ ١٢٣', 'שָׁלוֹם עוֹלָם, מה שלומך היום?',
    'नमस्ते दुनिया, क्षत्रिय श्री १२३ हिन्दी में।', 'สวัสดีชาวโลก ภาษาไทยไม่มีช่องว่าง ๑๒๓', '你好，世界！今天天气很好。𠮷野家。', 'こんにちは世界。カタカナとひらがな、ﾊﾝｶｸ。がぎぐ',
    '안녕하세요 세계! 오늘 날씨가 좋네요. 한글', '👩‍👩‍👧‍👦 family, 👍🏽 thumbs, 🇩🇪 flag, ❤️ heart, 🏳️‍🌈', 'x = f(a, b) + 3.14159 * 10**-3; // C++ & <b>HTML</b> #tag @user',
    'https://example.com/path?query=1&other=%20two#frag user.name+tag@mail.co.uk', '½ ² ① Ⅳ ㋿ ﷺ ﬁ ﬀ ａｂｃ １２３ ～ ㍿', 'ẞ ß ſ K Å Ω ǅ ŉ ΐ',
    'Tiếng Việt có nhiều dấu: ường ộ ẵ. a\u0301 e\u0323\u0302 o\u0308\u0301', 'ქართული ენა, Հայերեն լեզու, አማርኛ ቋንቋ, ᏣᎳᎩ', 'တမ်းမြန်မာ ខ្មែរ ລາວ བོད་ཡིག தமிழ் తెలుగు ಕನ್ನಡ മലയാളം',
]
SPECIAL = ['[CLS]', '[SEP]', '[MASK]', '[UNK]', '[PAD]', '<s>', '</s>', '<unk>', '<pad>', '<mask>', '<|endoftext|>', '[ENT]', 'tok-word']


def texts():
    found = list(SENTENCES)
    found += ['', ' ', '   ', '\t', '\n', '\r\n', ' \n \t ', '\u00a0', '\u3000', '\ufeff', '\u200b', '\u0085', '\u2028 \u2029']
    found += ['a\u0001b\u0002c', 'a\u007fb\u009fc', 'a\u00adb\u200dc\u200ed', '\ufffd\ufffe', 'a\ue000b', 'x\u0378y', '\U000e0001tag\U000e007f']
    found += ['  leading', 'trailing  ', ' both ', 'a  b   c    d', 'a\tb\nc\rd\r\ne', 'tab\t\ttab\n\nline\n \n', 'a\u00a0b\u3000c\u2003d\ufeffe\u0085f\u200bg']
    for special in SPECIAL:
        found += [special, f'a {special} b', f'a{special}b', f'{special}{special}  x', f' {special.lower()} {special} ']
    found += ['ab' * 600, 'word ' * 700, 'é' * 400, '世' * 300, '!' * 150, ' ' * 300 + 'x', 'x' + '\n' * 120, '👍' * 120, '1234567890' * 30]
    for _ in range(60):
        parts = random.sample(SENTENCES, 2)
        cut = [part[random.randrange(len(part)):][:random.randrange(5, 40)] for part in parts]
        found.append(random.choice(['', ' ', '  ', '\n']).join(cut))
    while len(found) < 240:
        found.append(''.join(chr(random.choice([random.randrange(32, 127), random.randrange(0xa0, 0x600), random.randrange(0x900, 0xe00), random.randrange(0x3040, 0x3100), random.randrange(0x1f300, 0x1f600)])) for _ in range(12)))
    found += ["I'LL DON'T we'Ve \u017f'\u017f THEY'RE", '12345 1234567 1,234.5 ١٢٣٤ ², ½', 'snake_case camelCase HTTPServer x_1', '\u1ebe\u0345\u0301 \u0958\u0344', 'ﾊﾟﾋﾟ がﾞ', '\u1100\u1161\u11a8 각', '\u0301start', '\u200d\u200d', '🏴\U000e0067\U000e0062\U000e007f', 'e\u0301\u0327\u0323x']
    return found


def added(tokenizer, special, **more):
    from tokenizers import AddedToken
    tokenizer.add_special_tokens(special)
    tokenizer.add_tokens([AddedToken('[ENT]', lstrip=True, rstrip=True, normalized=False), AddedToken('tok-word', single_word=True, normalized=True)])


def corpus():
    return SENTENCES * 3


def built():
    bert_special = ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]']
    for name, lower, accents in [('bert-uncased', True, None), ('bert-cased', False, False), ('bert-strip', False, True)]:
        t = Tokenizer(models.WordPiece(unk_token='[UNK]', max_input_chars_per_word=60))
        t.normalizer = normalizers.BertNormalizer(lowercase=lower, strip_accents=accents)
        t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        t.train_from_iterator(corpus(), trainers.WordPieceTrainer(vocab_size=420, special_tokens=bert_special, show_progress=False))
        added(t, bert_special)
        ids = [(x, t.token_to_id(x)) for x in ['[CLS]', '[SEP]']]
        if lower:
            t.post_processor = processors.TemplateProcessing(single='[CLS] $A [SEP]', pair='[CLS] $A [SEP] $B:1 [SEP]:1', special_tokens=ids)
        else:
            t.post_processor = processors.BertProcessing(ids[1], ids[0])
        t.enable_truncation(40, strategy='longest_first', direction='left' if accents else 'right')
        t.enable_padding(pad_id=0, pad_token='[PAD]', pad_to_multiple_of=8 if lower else None)
        yield name, t
    roberta_special = ['<s>', '<pad>', '</s>', '<unk>', '<mask>']
    for name, prefix, regex in [('roberta', True, None), ('gpt2', False, None), ('llama3', False, r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"), ('o200k', False, r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")]:
        t = Tokenizer(models.BPE())
        if regex:
            t.normalizer = normalizers.NFC()
            t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(regex), 'isolated'), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
        else:
            t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
        special = roberta_special if name == 'roberta' else ['<|endoftext|>']
        t.train_from_iterator(corpus(), trainers.BpeTrainer(vocab_size=520, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
        added(t, special)
        if name == 'roberta':
            t.post_processor = processors.RobertaProcessing(('</s>', 2), ('<s>', 0))
            t.enable_truncation(30, strategy='only_first')
        elif regex:
            t.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), processors.TemplateProcessing(single='<|endoftext|> $A', pair='<|endoftext|> $A <|endoftext|>:1 $B:1', special_tokens=[('<|endoftext|>', 0)])])
        yield name, t
    t = Tokenizer(models.BPE(unk_token='<unk>', fuse_unk=True, byte_fallback=True))
    t.normalizer = normalizers.Sequence([normalizers.Prepend('▁'), normalizers.Replace(' ', '▁')])
    t.train_from_iterator([s.replace(' ', '▁') for s in corpus()[:9]], trainers.BpeTrainer(vocab_size=700, limit_alphabet=60, special_tokens=['<unk>', '<s>', '</s>'] + [f'<0x{b:02X}>' for b in range(256)], show_progress=False))
    added(t, ['<unk>', '<s>', '</s>'])
    yield 'llama2', t
    t = Tokenizer(models.BPE(unk_token='<unk>', end_of_word_suffix='</w>', fuse_unk=False))
    t.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Replace(Regex(r'\s+'), ' '), normalizers.Lowercase()])
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"), 'removed', invert=True)])
    t.train_from_iterator([s.lower() for s in corpus()], trainers.BpeTrainer(vocab_size=420, limit_alphabet=150, end_of_word_suffix='</w>', special_tokens=['<unk>', '<|endoftext|>'], show_progress=False))
    added(t, ['<unk>', '<|endoftext|>'])
    yield 'clip', t
    t = Tokenizer(models.BPE(unk_token='[UNK]', continuing_subword_prefix='##', fuse_unk=True))
    t.normalizer = normalizers.Sequence([normalizers.Nmt(), normalizers.NFKD(), normalizers.StripAccents(), normalizers.Strip()])
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation('contiguous'), pre_tokenizers.Digits(individual_digits=True)])
    t.train_from_iterator(corpus(), trainers.BpeTrainer(vocab_size=420, limit_alphabet=150, continuing_subword_prefix='##', special_tokens=['[UNK]'], show_progress=False))
    added(t, ['[UNK]'])
    yield 'subword-prefix', t
    for name, pre in [('unigram', pre_tokenizers.Metaspace()), ('unigram-first', pre_tokenizers.Metaspace(prepend_scheme='first', split=False)), ('unigram-words', pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), pre_tokenizers.Punctuation('merged_with_previous'), pre_tokenizers.Digits(), pre_tokenizers.Split('e', 'merged_with_next'), pre_tokenizers.Metaspace(prepend_scheme='never')]))]:
        t = Tokenizer(models.Unigram())
        t.normalizer = normalizers.NFKC() if name != 'unigram-words' else normalizers.Sequence([normalizers.NFD(), normalizers.Replace('t', 'T')])
        t.pre_tokenizer = pre
        t.train_from_iterator(corpus(), trainers.UnigramTrainer(vocab_size=420, unk_token='<unk>', special_tokens=['<s>', '<pad>', '</s>', '<unk>', '<mask>'], show_progress=False))
        added(t, ['<s>', '<pad>', '</s>', '<unk>', '<mask>'])
        t.post_processor = processors.TemplateProcessing(single='<s> $A </s>', pair='<s> $A </s> </s> $B </s>', special_tokens=[('<s>', 0), ('</s>', 2)])
        t.enable_padding(pad_id=1, pad_token='<pad>', direction='left', length=16)
        yield name, t
    t = Tokenizer(models.WordLevel(unk_token='[UNK]'))
    t.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
    t.pre_tokenizer = pre_tokenizers.Whitespace()
    t.train_from_iterator(corpus(), trainers.WordLevelTrainer(vocab_size=300, special_tokens=['[UNK]', '[CLS]', '[SEP]', '[PAD]'], show_progress=False))
    added(t, ['[UNK]', '[CLS]', '[SEP]', '[PAD]'])
    t.post_processor = processors.TemplateProcessing(single='[CLS] $A [SEP]', pair='[CLS] $A [SEP] $B:1 [SEP]:1', special_tokens=[('[CLS]', 1), ('[SEP]', 2)])
    t.enable_truncation(30)
    yield 'word-level', t
    t = Tokenizer(models.BPE(unk_token='<unk>'))
    t.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.ByteLevel()])
    t.pre_tokenizer = pre_tokenizers.FixedLength(length=7)
    t.train_from_iterator(corpus(), trainers.BpeTrainer(vocab_size=420, special_tokens=['<unk>'], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    added(t, ['<unk>'])
    yield 'bytes-of-fixed-length', t
    yield 'charsmap', charsmap()
    yield 'unigram-bytes', byte_fallback()


def charsmap():
    """XLM-R's normalizer with a charsmap of a few rules, because that of nmt_nfkc has 300 kB."""
    import sentencepiece
    rules = ['\t\t20', '9\t20', 'A\t20', 'D\t20', 'A0\t20', '3000\t20', '200B\t20', 'FEFF\t', '1\t', '7F\t', 'FF11\t31', 'FF21\t41', 'FB01\t66 69', 'BD\t31 2044 32', '32FF\t4EE4 548C', '65 301\tE9', '61 301\tE1', '304B 3099\t304C', '1100 1161\tAC00', '130\t49', 'FDFA\t635 644 649 20 627 644 644 647']
    path = '/tmp/text-rules.tsv'
    with open(path, 'w') as file:
        file.write('\n'.join(rule for rule in rules if not rule.startswith('\t')) + '\n')
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(corpus() * 3), model_writer=model, vocab_size=420, normalization_rule_tsv=path, character_coverage=0.98, minloglevel=2, hard_vocab_limit=False)
    from sentencepiece import sentencepiece_model_pb2 as proto
    read = proto.ModelProto()
    read.ParseFromString(model.getvalue())
    pieces = [(piece.piece, piece.score) for piece in read.pieces]
    t = Tokenizer(models.Unigram(pieces, unk_id=read.trainer_spec.unk_id))
    t.normalizer = normalizers.Sequence([normalizers.Precompiled(read.normalizer_spec.precompiled_charsmap), normalizers.Strip(left=False, right=True), normalizers.Replace(Regex(' {2,}'), '▁')])
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    added(t, ['<s>', '</s>', '<unk>'])
    return t


def byte_fallback():
    pieces = [('<unk>', 0.0)] + [(f'<0x{b:02X}>', -20.0) for b in range(256)]
    pieces += [(c, -5.0 - i * 0.01) for i, c in enumerate('▁etaoinshrdlucmfwygpbvk.,')] + [('▁the', -3.0), ('th', -4.0), ('he', -4.0), ('▁t', -4.0), ('in', -4.2), ('ing', -4.2), ('é', -7.0)]
    t = Tokenizer(models.Unigram(pieces, unk_id=0, byte_fallback=True))
    t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme='always', split=True)
    added(t, ['<unk>'])
    return t


def main():
    os.makedirs(HERE, exist_ok=True)
    every = texts()
    pairs = [(every[i], every[(7 * i + 3) % len(every)]) for i in range(0, len(every), 6)]
    write('texts', {'texts': every, 'pairs': pairs})
    for name, t in built():
        file = json.loads(t.to_str())
        t.no_padding()
        entry = {'tokenizer': file}
        encoded = [t.encode(text) for text in every]
        entry['ids'] = [e.ids for e in encoded]
        both = []
        for a, b in pairs:
            try:
                e = t.encode(a, b)
                both.append([e.ids, e.type_ids])
            except Exception as error:
                both.append(str(error))
        entry['pairs'] = both
        write(name, entry)


def write(name, value):
    text = json.dumps(value, ensure_ascii=False, separators=(',', ':'))
    with open(os.path.join(HERE, f'{name}.json.gz'), 'wb') as file:
        file.write(gzip.compress(text.encode('utf-8', 'surrogatepass'), 9, mtime=0))


main()
