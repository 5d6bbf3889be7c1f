;; Reads a nested array of JSON numbers: writes each as a double or rounds that to a float32, and counts each level, which must be
;; rectangular.
;; `npm run build:scanner` makes wasm.ts of it; scan.ts is its only caller, and fills the tables.
;;
;; memory    what
;;      0    256 powers of five, 10^-128 to 10^127: 128 bits each with the highest set, the upper half first
;;   4096    10^0 to 10^22 as doubles
;;   4288    10^0 to 10^19 as whole numbers
;;   4448    17 shuffles; the nth moves n bytes to the end of a vector and zeros in front of them
;;   4736    the state: position, where the next number goes, depth, depth of the numbers (0: not known yet),
;;           1 behind a value, where the row of numbers began, the size of a number as a power of two: 3 for doubles, 2 for
;;           float32
;;   4768    for each depth from 0: how many elements its arrays have (0: not known yet), and this one so far
;;   8192    the text, and zeros behind it
(module
  (memory (export "memory") 6)

  ;; 16 digits, each a byte of 0 to 9, as a number.
  (func $value (param $digits v128) (result i64)
    (local $eights i64)
    ;; Two digits become one number, then two of those, and again. Of factors below 128 every processor makes the same.
    (local.set $digits (i16x8.relaxed_dot_i8x16_i7x16_s
      (local.get $digits) (v128.const i8x16 10 1 10 1 10 1 10 1 10 1 10 1 10 1 10 1)))
    (local.set $digits (i32x4.dot_i16x8_s (local.get $digits) (v128.const i16x8 100 1 100 1 100 1 100 1)))
    (local.set $digits (i32x4.dot_i16x8_s (i16x8.narrow_i32x4_u (local.get $digits) (local.get $digits))
      (v128.const i16x8 10000 1 10000 1 10000 1 10000 1)))
    (local.set $eights (i64x2.extract_lane 0 (local.get $digits)))
    (i64.add
      (i64.mul (i64.and (local.get $eights) (i64.const 0xffffffff)) (i64.const 100000000))
      (i64.shr_u (local.get $eights) (i64.const 32))))

  ;; The upper half of a product of 128 bits.
  (func $high (param $x i64) (param $y i64) (result i64)
    (local $cross i64) (local $middle i64)
    (local.set $cross (i64.mul (i64.and (local.get $x) (i64.const 0xffffffff)) (i64.shr_u (local.get $y) (i64.const 32))))
    (local.set $middle (i64.add
      (i64.add
        (i64.shr_u (i64.mul (i64.and (local.get $x) (i64.const 0xffffffff)) (i64.and (local.get $y) (i64.const 0xffffffff)))
          (i64.const 32))
        (i64.and (local.get $cross) (i64.const 0xffffffff)))
      (i64.mul (i64.shr_u (local.get $x) (i64.const 32)) (i64.and (local.get $y) (i64.const 0xffffffff)))))
    (i64.add
      (i64.mul (i64.shr_u (local.get $x) (i64.const 32)) (i64.shr_u (local.get $y) (i64.const 32)))
      (i64.add (i64.shr_u (local.get $cross) (i64.const 32)) (i64.shr_u (local.get $middle) (i64.const 32)))))

  ;; $w * 10^$q, $w > 0, as the nearest double, by the algorithm of Eisel and Lemire ("Number parsing at a gigabyte per
  ;; second", 2021); -1 where that cannot tell, and where it is no normal number or $q is in no table.
  (func $nearest (param $w i64) (param $q i32) (result f64)
    (local $power i32) (local $zeros i64) (local $hi i64) (local $lo i64) (local $more i64) (local $upper i64)
    (local $mantissa i64) (local $exponent i64)
    (if (i32.gt_u (i32.add (local.get $q) (i32.const 128)) (i32.const 255)) (then (return (f64.const -1))))
    (local.set $power (i32.shl (i32.add (local.get $q) (i32.const 128)) (i32.const 4)))
    (local.set $zeros (i64.clz (local.get $w)))
    (local.set $w (i64.shl (local.get $w) (local.get $zeros)))
    (local.set $hi (call $high (local.get $w) (i64.load (local.get $power))))
    (local.set $lo (i64.mul (local.get $w) (i64.load (local.get $power))))
    (if (i64.eq (i64.and (local.get $hi) (i64.const 0x1ff)) (i64.const 0x1ff))
      (then
        (local.set $more (call $high (local.get $w) (i64.load offset=8 (local.get $power))))
        (local.set $lo (i64.add (local.get $lo) (local.get $more)))
        (if (i64.gt_u (local.get $more) (local.get $lo)) (then (local.set $hi (i64.add (local.get $hi) (i64.const 1)))))
        (if (i64.eq (local.get $lo) (i64.const -1)) (then (return (f64.const -1))))))
    (local.set $upper (i64.shr_u (local.get $hi) (i64.const 63)))
    (local.set $mantissa (i64.shr_u (local.get $hi) (i64.add (local.get $upper) (i64.const 9))))
    ;; 217706 / 2^16 is log2(10).
    (local.set $exponent (i64.sub
      (i64.add
        (i64.extend_i32_s (i32.shr_s (i32.mul (local.get $q) (i32.const 217706)) (i32.const 16)))
        (i64.add (local.get $upper) (i64.const 1086)))
      (local.get $zeros)))
    (if (i64.ge_u (i64.sub (local.get $exponent) (i64.const 1)) (i64.const 2045)) (then (return (f64.const -1))))
    ;; Exactly between two doubles it is the even one. Only with these powers the product can be exact.
    (if (i64.le_u (local.get $lo) (i64.const 1))
      (then (if (i32.and
          (i32.le_u (i32.add (local.get $q) (i32.const 4)) (i32.const 27))
          (i32.and
            (i64.eq (i64.and (local.get $mantissa) (i64.const 3)) (i64.const 1))
            (i64.eq (i64.shl (local.get $mantissa) (i64.add (local.get $upper) (i64.const 9))) (local.get $hi))))
        (then (local.set $mantissa (i64.and (local.get $mantissa) (i64.const -2)))))))
    (local.set $mantissa (i64.shr_u
      (i64.add (local.get $mantissa) (i64.and (local.get $mantissa) (i64.const 1)))
      (i64.const 1)))
    ;; A mantissa that was rounded up to 2^53 carries into the exponent.
    (f64.reinterpret_i64 (i64.add
      (i64.shl (local.get $exponent) (i64.const 52))
      (i64.sub (local.get $mantissa) (i64.const 0x10000000000000)))))

  (func $isSpace (param $c i32) (result i32)
    (i32.or
      (i32.or (i32.eq (local.get $c) (i32.const 32)) (i32.eq (local.get $c) (i32.const 10)))
      (i32.or (i32.eq (local.get $c) (i32.const 13)) (i32.eq (local.get $c) (i32.const 9)))))

  ;; A bit for each of 16 characters that end a number: a comma, a bracket, white space.
  (func $ends (param $text v128) (result i32)
    (i8x16.bitmask (v128.or
      (i8x16.le_u (local.get $text) (i8x16.splat (i32.const 32)))
      (v128.or
        (i8x16.eq (local.get $text) (i8x16.splat (i32.const 44)))
        (i8x16.eq (local.get $text) (i8x16.splat (i32.const 93)))))))

  ;; A bit for each of 16 characters, from $pos + $offset on, that is no digit.
  (func $others (param $pos i32) (param $offset i32) (result i32)
    (i8x16.bitmask (i8x16.gt_u
      (i8x16.sub (v128.load align=1 (i32.add (local.get $pos) (local.get $offset))) (i8x16.splat (i32.const 48)))
      (i8x16.splat (i32.const 9)))))

  ;; What the first of $n digits in front of $end are worth, $n from 16 to 18, of which the last 16 do not count.
  (func $front (param $end i32) (param $n i32) (result i64)
    (i64.mul (i64.const 10000000000000000) (i64.extend_i32_u (i32.add
      (select
        (i32.sub (i32.load8_u (i32.sub (local.get $end) (i32.const 17))) (i32.const 48))
        (i32.const 0)
        (i32.ne (local.get $n) (i32.const 16)))
      (i32.mul (i32.const 10) (select
        (i32.sub (i32.load8_u (i32.sub (local.get $end) (i32.const 18))) (i32.const 48))
        (i32.const 0)
        (i32.eq (local.get $n) (i32.const 18))))))))

  ;; Reads from the position of the state; no value begins at $limit or behind it. Returns
  ;;   0 at the limit; 1 behind the array; 2 in front of a number of which this cannot make a double; 3 at anything else,
  ;;   which is no JSON, no number, or of another shape.
  (func (export "scan") (param $limit i32) (result i32)
    (local $pos i32) (local $out i32) (local $depth i32) (local $leaf i32) (local $behind i32)
    (local $c i32) (local $n i32) (local $x i32) (local $level i32) (local $from i32) (local $status i32)
    (local $digits v128) (local $w i64) (local $q i32) (local $end i32) (local $minus i32) (local $number f64)
    (local $size i32) (local $single f32)
    (local.set $pos (i32.load offset=4736 (i32.const 0)))
    (local.set $out (i32.load offset=4740 (i32.const 0)))
    (local.set $depth (i32.load offset=4744 (i32.const 0)))
    (local.set $leaf (i32.load offset=4748 (i32.const 0)))
    (local.set $behind (i32.load offset=4752 (i32.const 0)))
    (local.set $size (i32.load offset=4760 (i32.const 0)))
    (local.set $status (i32.const 3))
    (block $stop
      (block $odd
        (block $slow
          (loop $next
            (if (local.get $behind)
              (then
                (local.set $c (i32.load8_u (local.get $pos)))
                (block $comma
                  (loop $space
                    (br_if $comma (i32.eq (local.get $c) (i32.const 44)))
                    (if (i32.eq (local.get $c) (i32.const 93))
                      (then
                        (local.set $level (i32.shl (local.get $depth) (i32.const 3)))
                        (local.set $n (i32.load offset=4772 (local.get $level)))
                        (if (i32.eq (local.get $depth) (local.get $leaf))
                          (then (local.set $n (i32.shr_u
                            (i32.sub (local.get $out) (i32.load offset=4756 (i32.const 0)))
                            (local.get $size)))))
                        (local.set $x (i32.load offset=4768 (local.get $level)))
                        (br_if $odd (i32.and (i32.ne (local.get $x) (i32.const 0)) (i32.ne (local.get $x) (local.get $n))))
                        (i32.store offset=4768 (local.get $level) (local.get $n))
                        (local.set $pos (i32.add (local.get $pos) (i32.const 1)))
                        (local.set $depth (i32.sub (local.get $depth) (i32.const 1)))
                        (if (i32.eqz (local.get $depth)) (then (local.set $status (i32.const 1)) (br $stop)))
                        (i32.store offset=4764 (local.get $level)
                          (i32.add (i32.load offset=4764 (local.get $level)) (i32.const 1)))
                        (br $next)))
                    (br_if $odd (i32.eqz (call $isSpace (local.get $c))))
                    (local.set $c (i32.load8_u (local.tee $pos (i32.add (local.get $pos) (i32.const 1)))))
                    (br $space)))
                (local.set $pos (i32.add (local.get $pos) (i32.const 1)))
                (local.set $behind (i32.const 0))))
            ;; In front of a value.
            (local.set $c (i32.load8_u (local.get $pos)))
            (if (i32.le_u (local.get $c) (i32.const 32))
              (then (loop $space
                (br_if $odd (i32.eqz (call $isSpace (local.get $c))))
                (local.set $c (i32.load8_u (local.tee $pos (i32.add (local.get $pos) (i32.const 1)))))
                (br_if $space (i32.le_u (local.get $c) (i32.const 32))))))
            (br_if $odd (i32.ge_u (local.get $pos) (local.get $limit)))
            (if (i32.eq (local.get $c) (i32.const 91))
              (then
                (br_if $odd (i32.and (i32.ne (local.get $leaf) (i32.const 0)) (i32.eq (local.get $depth) (local.get $leaf))))
                (local.set $depth (i32.add (local.get $depth) (i32.const 1)))
                (br_if $odd (i32.gt_u (local.get $depth) (i32.const 16)))
                (i32.store offset=4772 (i32.shl (local.get $depth) (i32.const 3)) (i32.const 0))
                (i32.store offset=4756 (i32.const 0) (local.get $out))
                (local.set $pos (i32.add (local.get $pos) (i32.const 1)))
                (br $next)))
            (if (i32.ne (local.get $depth) (local.get $leaf))
              (then
                (br_if $odd (local.get $leaf))
                (local.set $leaf (local.get $depth))))
            ;; The most frequent form by itself: a digit, a point, up to 18 digits, and a comma or the end of the array.
            (block $other
              (loop $frequent
                (local.set $from (local.get $pos))
                (local.set $minus (i32.eq (local.get $c) (i32.const 45)))
                (local.set $x (i32.sub
                  (i32.load16_u align=1 (i32.add (local.get $from) (local.get $minus)))
                  (i32.const 0x2e30)))
                (br_if $other (i32.gt_u (local.get $x) (i32.const 9)))
                ;; A bit for each character behind the first two that is no digit, without a point that a minus has moved there. So
                ;; where the next number begins does not wait until the first character is read.
                (local.set $n (i32.ctz (i32.xor (local.get $minus) (call $others (local.get $from) (i32.const 2)))))
                (if (i32.eq (local.get $n) (i32.const 32))
                  (then (local.set $n (i32.add (i32.const 16) (i32.ctz (call $others (local.get $from) (i32.const 18)))))))
                (local.set $pos (i32.add (local.get $from) (i32.add (local.get $n) (i32.const 2))))
                (local.set $end (i32.load8_u (local.get $pos)))
                (br_if $other (i32.and (i32.ne (local.get $end) (i32.const 44)) (i32.ne (local.get $end) (i32.const 93))))
                (local.set $n (i32.sub (local.get $n) (local.get $minus)))
                (br_if $other (i32.and (i32.gt_u (local.get $n) (i32.const 14)) (i32.eq (local.get $size) (i32.const 3))))
                (local.set $w (i64.mul (i64.extend_i32_u (local.get $x)) (i64.load offset=4288 (i32.shl (local.get $n) (i32.const 3)))))
                (if (i32.le_u (i32.sub (local.get $n) (i32.const 1)) (i32.const 14))
                  (then
                    (local.set $w (i64.add (local.get $w) (call $value (i8x16.swizzle
                      (i8x16.sub
                        (v128.load offset=2 align=1 (i32.add (local.get $from) (local.get $minus)))
                        (i8x16.splat (i32.const 48)))
                      (v128.load offset=4448 (i32.shl (local.get $n) (i32.const 4))))))))
                  (else
                    (br_if $other (i32.gt_u (i32.sub (local.get $n) (i32.const 16)) (i32.const 2)))
                    (local.set $w (i64.add
                      (i64.add (local.get $w) (call $front (local.get $pos) (local.get $n)))
                      (call $value (i8x16.sub
                        (v128.load align=1 (i32.sub (local.get $pos) (i32.const 16)))
                        (i8x16.splat (i32.const 48))))))
                    (br_if $other (i64.lt_s (local.get $w) (i64.const 0)))))
                ;; Up to 14 digits both are exact doubles, and the quotient is rounded once.
                (local.set $number (f64.div
                  (f64.convert_i64_s (local.get $w))
                  (f64.load offset=4096 (i32.shl (local.get $n) (i32.const 3)))))
                (if (i32.eq (local.get $size) (i32.const 2))
                  (then
                    ;; With more it may be the double beside the nearest one. Both are rounded to the same float32, but in the middle
                    ;; between two of these.
                    (br_if $other (i32.le_u
                      (i32.sub
                        (i32.and (i32.wrap_i64 (i64.reinterpret_f64 (local.get $number))) (i32.const 0x1fffffff))
                        (i32.const 0xffffffc))
                      (i32.const 8)))
                    (i32.store (local.get $out) (i32.or
                      (i32.reinterpret_f32 (f32.demote_f64 (local.get $number)))
                      (i32.shl (local.get $minus) (i32.const 31)))))
                  (else
                    (i64.store (local.get $out) (i64.or
                      (i64.reinterpret_f64 (local.get $number))
                      (i64.shl (i64.extend_i32_u (local.get $minus)) (i64.const 63))))))
                (local.set $out (i32.add (local.get $out) (i32.shl (i32.const 1) (local.get $size))))
                (if (i32.eq (local.get $end) (i32.const 93)) (then (local.set $behind (i32.const 1)) (br $next)))
                (local.set $c (i32.load8_u (local.tee $pos (i32.add (local.get $pos) (i32.const 1)))))
                (br_if $frequent (i32.and
                  (i32.lt_u (local.get $pos) (local.get $limit))
                  (i32.or
                    (i32.eq (local.get $c) (i32.const 45))
                    (i32.le_u (i32.sub (local.get $c) (i32.const 48)) (i32.const 9))))))
              (br $next))
            ;; The next most frequent: up to three digits, as of pixels.
            (block $longer
              (loop $pixel
                (local.set $pos (local.get $from))
                (local.set $x (i32.load align=1 (local.get $from)))
                (local.set $w (i64.extend_i32_u (i32.sub (local.get $x) (i32.const 0x30303030))))
                ;; The highest bit of each byte that is no digit, up to the first of them at least; the fourth is taken for one.
                (local.set $n (i32.and (i32.const 0x18) (i32.ctz (i32.or (i32.const 0x80000000) (i32.and (i32.const 0x80808080)
                  (i32.or (i32.wrap_i64 (local.get $w)) (i32.add (local.get $x) (i32.const 0x46464646))))))))
                (local.set $end (i32.and (i32.shr_u (local.get $x) (local.get $n)) (i32.const 255)))
                (br_if $longer (i32.and (i32.ne (local.get $end) (i32.const 44)) (i32.ne (local.get $end) (i32.const 93))))
                ;; No digit, or a zero in front of others.
                (br_if $longer (i32.or
                  (i32.eqz (local.get $n))
                  (i32.and
                    (i32.eq (i32.and (local.get $x) (i32.const 255)) (i32.const 48))
                    (i32.ne (local.get $n) (i32.const 8)))))
                ;; The last digit is in the highest of three bytes now.
                (local.set $x (i32.shl (i32.wrap_i64 (local.get $w)) (i32.sub (i32.const 24) (local.get $n))))
                (local.set $x (i32.add
                  (i32.and (i32.shr_u (local.get $x) (i32.const 16)) (i32.const 255))
                  (i32.add
                    (i32.mul (i32.and (i32.shr_u (local.get $x) (i32.const 8)) (i32.const 255)) (i32.const 10))
                    (i32.mul (i32.and (local.get $x) (i32.const 255)) (i32.const 100)))))
                (if (i32.eq (local.get $size) (i32.const 2))
                  (then (f32.store (local.get $out) (f32.convert_i32_s (local.get $x))))
                  (else (f64.store (local.get $out) (f64.convert_i32_s (local.get $x)))))
                (local.set $out (i32.add (local.get $out) (i32.shl (i32.const 1) (local.get $size))))
                (local.set $pos (i32.add (local.get $from) (i32.shr_u (local.get $n) (i32.const 3))))
                (if (i32.eq (local.get $end) (i32.const 93)) (then (local.set $behind (i32.const 1)) (br $next)))
                (local.set $from (local.tee $pos (i32.add (local.get $pos) (i32.const 1))))
                (local.set $c (i32.load8_u (local.get $pos)))
                (br_if $pixel (i32.and
                  (i32.lt_u (local.get $pos) (local.get $limit))
                  (i32.le_u (i32.sub (local.get $c) (i32.const 48)) (i32.const 9)))))
              (br $next))
            (local.set $pos (local.get $from))
            (local.set $minus (i32.const 0))
            (block $read
              (local.set $minus (i32.eq (local.get $c) (i32.const 45)))
              (local.set $pos (i32.add (local.get $pos) (local.get $minus)))
              (local.set $c (i32.sub (i32.load8_u (local.get $pos)) (i32.const 48)))
              (br_if $stop (i32.gt_u (local.get $c) (i32.const 9)))
              (if (i32.eq (i32.load8_u offset=1 (local.get $pos)) (i32.const 46))
                (then
                  ;; One digit, a point and 16 to 18 more. Where the number ends is sought for itself: the next one begins there,
                  ;; and need not wait until this one is read.
                  (local.set $x (call $ends (v128.load align=1 (local.get $from))))
                  (local.set $end (i32.add (local.get $from) (i32.ctz (local.get $x))))
                  (if (i32.eqz (local.get $x))
                    (then (local.set $end (i32.add (local.get $from) (i32.add (i32.const 16)
                      (i32.ctz (call $ends (v128.load offset=16 align=1 (local.get $from)))))))))
                  (local.set $n (i32.sub (i32.sub (local.get $end) (local.get $pos)) (i32.const 2)))
                  (local.set $digits (i8x16.sub
                    (v128.load align=1 (i32.sub (local.get $end) (i32.const 16)))
                    (i8x16.splat (i32.const 48))))
                  ;; A bit for each of the 16 in front of the end that is no digit.
                  (local.set $x (i8x16.bitmask (i8x16.gt_u (local.get $digits) (i8x16.splat (i32.const 9)))))
                  (local.set $q (i32.sub (i32.const 0) (local.get $n)))
                  (if (i32.and (i32.eqz (local.get $x)) (i32.le_u (i32.sub (local.get $n) (i32.const 16)) (i32.const 2)))
                    (then
                      ;; What is in front of the 16 digits: none, one or two.
                      (local.set $x (select
                        (i32.sub (i32.load8_u (i32.sub (local.get $end) (i32.const 17))) (i32.const 48))
                        (i32.const 0)
                        (i32.ne (local.get $n) (i32.const 16))))
                      (local.set $level (select
                        (i32.sub (i32.load8_u (i32.sub (local.get $end) (i32.const 18))) (i32.const 48))
                        (i32.const 0)
                        (i32.eq (local.get $n) (i32.const 18))))
                      (if (i32.and (i32.le_u (local.get $x) (i32.const 9)) (i32.le_u (local.get $level) (i32.const 9)))
                        (then
                          (local.set $w (i64.add
                            (i64.mul (i64.extend_i32_u (local.get $c))
                              (i64.load offset=4288 (i32.shl (local.get $n) (i32.const 3))))
                            (i64.add
                              (i64.mul (i64.const 10000000000000000)
                                (i64.extend_i32_u (i32.add (i32.mul (local.get $level) (i32.const 10)) (local.get $x))))
                              (call $value (local.get $digits)))))
                          (local.set $pos (local.get $end))
                          (br $read)))))))
              ;; Every other number.
              (local.set $digits (i8x16.sub (v128.load align=1 (local.get $pos)) (i8x16.splat (i32.const 48))))
              (local.set $n (i32.ctz (i32.xor (i32.const -1)
                (i8x16.bitmask (i8x16.lt_u (local.get $digits) (i8x16.splat (i32.const 10)))))))
              ;; Some of so many digits a double does not hold, and integers of 64 bits do.
              (br_if $stop (i32.eq (local.get $n) (i32.const 16)))
              (local.set $w (call $value (i8x16.swizzle (local.get $digits)
    (v128.load offset=4448 (i32.shl (local.get $n) (i32.const 4))))))
              (br_if $stop (i32.and (i32.eqz (local.get $c)) (i32.ne (local.get $n) (i32.const 1))))
              (local.set $c (i32.load8_u (local.tee $pos (i32.add (local.get $pos) (local.get $n)))))
              (local.set $q (i32.const 0))
              (if (i32.eq (local.get $c) (i32.const 46))
                (then
                  (local.set $pos (i32.add (local.get $pos) (i32.const 1)))
                  (loop $fraction
                    (local.set $digits (i8x16.sub (v128.load align=1 (local.get $pos)) (i8x16.splat (i32.const 48))))
                    (local.set $n (i32.ctz (i32.xor (i32.const -1)
                      (i8x16.bitmask (i8x16.lt_u (local.get $digits) (i8x16.splat (i32.const 10)))))))
                    ;; Only 19 digits always fit into 64 bits.
                    (br_if $slow (i64.ge_u (local.get $w)
                      (i64.load offset=4288 (i32.shl (i32.sub (i32.const 19) (local.get $n)) (i32.const 3)))))
                    (local.set $w (i64.add
                      (i64.mul (local.get $w) (i64.load offset=4288 (i32.shl (local.get $n) (i32.const 3))))
                      (call $value (i8x16.swizzle (local.get $digits)
    (v128.load offset=4448 (i32.shl (local.get $n) (i32.const 4)))))))
                    (local.set $pos (i32.add (local.get $pos) (local.get $n)))
                    (local.set $q (i32.sub (local.get $q) (local.get $n)))
                    (br_if $slow (i32.lt_s (local.get $q) (i32.const -32)))
                    (br_if $fraction (i32.eq (local.get $n) (i32.const 16))))
                  (br_if $stop (i32.eqz (local.get $q)))
                  (local.set $c (i32.load8_u (local.get $pos)))))
              (if (i32.eq (i32.or (local.get $c) (i32.const 32)) (i32.const 101))
                (then
                  (local.set $c (i32.load8_u (local.tee $pos (i32.add (local.get $pos) (i32.const 1)))))
                  (local.set $level (i32.eq (local.get $c) (i32.const 45)))
                  (if (i32.or (local.get $level) (i32.eq (local.get $c) (i32.const 43)))
                    (then (local.set $c (i32.load8_u (local.tee $pos (i32.add (local.get $pos) (i32.const 1)))))))
                  (local.set $c (i32.sub (local.get $c) (i32.const 48)))
                  (br_if $stop (i32.gt_u (local.get $c) (i32.const 9)))
                  (local.set $x (i32.const 0))
                  (loop $exponent
                    (local.set $x (i32.add (i32.mul (local.get $x) (i32.const 10)) (local.get $c)))
                    (br_if $slow (i32.gt_u (local.get $x) (i32.const 999)))
                    (local.set $c (i32.sub
                      (i32.load8_u (local.tee $pos (i32.add (local.get $pos) (i32.const 1))))
                      (i32.const 48)))
                    (br_if $exponent (i32.le_u (local.get $c) (i32.const 9))))
                  (local.set $q (i32.add (local.get $q)
                    (select (i32.sub (i32.const 0) (local.get $x)) (local.get $x) (local.get $level))))))
              )
            ;; Both factors are exact doubles, so that their product or quotient is rounded once (Clinger). With more digits behind
            ;; the point some numbers are too long for it and some are not, and a wrong guess of the processor takes longer.
            (if (i32.and
                (i64.le_u (local.get $w) (i64.const 9007199254740992))
                (i32.le_u (i32.add (local.get $q) (i32.const 15)) (i32.const 37)))
              (then
                (local.set $number (f64.convert_i64_s (local.get $w)))
                (if (local.get $q)
                  (then (if (i32.lt_s (local.get $q) (i32.const 0))
                    (then (local.set $number (f64.div (local.get $number)
                      (f64.load offset=4096 (i32.shl (i32.sub (i32.const 0) (local.get $q)) (i32.const 3))))))
                    (else (local.set $number (f64.mul (local.get $number)
                      (f64.load offset=4096 (i32.shl (local.get $q) (i32.const 3))))))))))
              (else
                (br_if $slow (i64.eqz (local.get $w)))
                (local.set $number (call $nearest (local.get $w) (local.get $q)))
                (br_if $slow (f64.lt (local.get $number) (f64.const 0)))))
            (local.set $number (f64.reinterpret_i64 (i64.or
              (i64.reinterpret_f64 (local.get $number))
              (i64.shl (i64.extend_i32_u (local.get $minus)) (i64.const 63)))))
            (if (i32.eq (local.get $size) (i32.const 2))
              (then
                (local.set $single (f32.demote_f64 (local.get $number)))
                (br_if $slow (f32.eq (f32.abs (local.get $single)) (f32.const inf)))
                (f32.store (local.get $out) (local.get $single)))
              (else (f64.store (local.get $out) (local.get $number))))
            (local.set $out (i32.add (local.get $out) (i32.shl (i32.const 1) (local.get $size))))
            (local.set $behind (i32.const 1))
            (if (i32.eq (i32.load8_u (local.get $pos)) (i32.const 44))
              (then
                (local.set $pos (i32.add (local.get $pos) (i32.const 1)))
                (local.set $behind (i32.const 0))))
            (br $next)))
        (local.set $pos (local.get $from))
        (local.set $status (i32.const 2))
        (br $stop))
      ;; What ends one window of the text is read again with the next.
      (if (i32.ge_u (local.get $pos) (local.get $limit)) (then (local.set $status (i32.const 0)))))
    (i32.store offset=4736 (i32.const 0) (local.get $pos))
    (i32.store offset=4740 (i32.const 0) (local.get $out))
    (i32.store offset=4744 (i32.const 0) (local.get $depth))
    (i32.store offset=4748 (i32.const 0) (local.get $leaf))
    (i32.store offset=4752 (i32.const 0) (local.get $behind))
    (local.get $status)))
