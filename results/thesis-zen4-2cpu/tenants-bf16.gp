# Draws tenants-bf16.svg and tenants-bf16.png from tenants-bf16.dat, in this folder: gnuplot tenants-bf16.gp
set datafile missing '?'
set style data histograms
set style histogram clustered gap 1
set style fill solid 0.8 border -1
set boxwidth 0.9
set grid ytics
set key outside bottom center horizontal
do for [format in 'svg png'] {
  if (format eq 'svg') { set terminal svg size 1200,1600 noenhanced background 'white' }
  if (format eq 'png') { set terminal pngcairo size 1200,1600 noenhanced }
  set output 'tenants-bf16.'.format
  set multiplot layout 4,2 title 'Table 5.2 continued: latency against tenants, bf16'
  set title 'bert-base'
  set xlabel 'tenants'
  set ylabel 'ms'
  set logscale x 2
  set yrange [0:*]
  set xtics autofreq
  plot 'tenants-bf16.dat' index 0 using 1:2 with linespoints title 'seq', \
       'tenants-bf16.dat' index 0 using 1:3 with linespoints title 'floor', \
       'tenants-bf16.dat' index 0 using 1:4 with linespoints title 'multi-stream', \
       'tenants-bf16.dat' index 0 using 1:5 with linespoints title 'mps', \
       'tenants-bf16.dat' index 0 using 1:6 with linespoints title 'itif'
  set title 'bert-base (4 layers)'
  set xlabel 'tenants'
  set ylabel 'ms'
  set logscale x 2
  set yrange [0:*]
  set xtics autofreq
  plot 'tenants-bf16.dat' index 1 using 1:2 with linespoints title 'seq', \
       'tenants-bf16.dat' index 1 using 1:3 with linespoints title 'floor', \
       'tenants-bf16.dat' index 1 using 1:4 with linespoints title 'multi-stream', \
       'tenants-bf16.dat' index 1 using 1:5 with linespoints title 'mps', \
       'tenants-bf16.dat' index 1 using 1:6 with linespoints title 'itif'
  set title 'albert-large'
  set xlabel 'tenants'
  set ylabel 'ms'
  set logscale x 2
  set yrange [0:*]
  set xtics autofreq
  plot 'tenants-bf16.dat' index 2 using 1:2 with linespoints title 'seq', \
       'tenants-bf16.dat' index 2 using 1:3 with linespoints title 'floor', \
       'tenants-bf16.dat' index 2 using 1:4 with linespoints title 'multi-stream', \
       'tenants-bf16.dat' index 2 using 1:5 with linespoints title 'mps', \
       'tenants-bf16.dat' index 2 using 1:6 with linespoints title 'itif'
  set title 'albert-large (8 layers)'
  set xlabel 'tenants'
  set ylabel 'ms'
  set logscale x 2
  set yrange [0:*]
  set xtics autofreq
  plot 'tenants-bf16.dat' index 3 using 1:2 with linespoints title 'seq', \
       'tenants-bf16.dat' index 3 using 1:3 with linespoints title 'floor', \
       'tenants-bf16.dat' index 3 using 1:4 with linespoints title 'multi-stream', \
       'tenants-bf16.dat' index 3 using 1:5 with linespoints title 'mps', \
       'tenants-bf16.dat' index 3 using 1:6 with linespoints title 'itif'
  set title 'vit-base'
  set xlabel 'tenants'
  set ylabel 'ms'
  set logscale x 2
  set yrange [0:*]
  set xtics autofreq
  plot 'tenants-bf16.dat' index 4 using 1:2 with linespoints title 'seq', \
       'tenants-bf16.dat' index 4 using 1:3 with linespoints title 'floor', \
       'tenants-bf16.dat' index 4 using 1:4 with linespoints title 'multi-stream', \
       'tenants-bf16.dat' index 4 using 1:5 with linespoints title 'mps', \
       'tenants-bf16.dat' index 4 using 1:6 with linespoints title 'itif'
  set title 'vit-base (4 layers)'
  set xlabel 'tenants'
  set ylabel 'ms'
  set logscale x 2
  set yrange [0:*]
  set xtics autofreq
  plot 'tenants-bf16.dat' index 5 using 1:2 with linespoints title 'seq', \
       'tenants-bf16.dat' index 5 using 1:3 with linespoints title 'floor', \
       'tenants-bf16.dat' index 5 using 1:4 with linespoints title 'multi-stream', \
       'tenants-bf16.dat' index 5 using 1:5 with linespoints title 'mps', \
       'tenants-bf16.dat' index 5 using 1:6 with linespoints title 'itif'
  set title 'decoding (8 steps)'
  set xlabel 'tenants'
  set ylabel 'ms'
  set logscale x 2
  set yrange [0:*]
  set xtics autofreq
  plot 'tenants-bf16.dat' index 6 using 1:2 with linespoints title 'seq', \
       'tenants-bf16.dat' index 6 using 1:3 with linespoints title 'floor', \
       'tenants-bf16.dat' index 6 using 1:4 with linespoints title 'multi-stream', \
       'tenants-bf16.dat' index 6 using 1:5 with linespoints title 'mps', \
       'tenants-bf16.dat' index 6 using 1:6 with linespoints title 'itif'
  set title 'decoding (2 layers, 8 steps)'
  set xlabel 'tenants'
  set ylabel 'ms'
  set logscale x 2
  set yrange [0:*]
  set xtics autofreq
  plot 'tenants-bf16.dat' index 7 using 1:2 with linespoints title 'seq', \
       'tenants-bf16.dat' index 7 using 1:3 with linespoints title 'floor', \
       'tenants-bf16.dat' index 7 using 1:4 with linespoints title 'multi-stream', \
       'tenants-bf16.dat' index 7 using 1:5 with linespoints title 'mps', \
       'tenants-bf16.dat' index 7 using 1:6 with linespoints title 'itif'
  unset multiplot
  unset output
}
