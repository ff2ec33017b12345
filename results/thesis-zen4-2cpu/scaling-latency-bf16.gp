# Draws scaling-latency-bf16.svg and scaling-latency-bf16.png from scaling-latency-bf16.dat, in this folder: gnuplot scaling-latency-bf16.gp
set datafile missing '?'
set style data histograms
set style histogram clustered gap 1
set style fill solid 0.8 border -1
set boxwidth 0.9
set grid ytics
set key outside bottom center horizontal
do for [format in 'svg png'] {
  if (format eq 'svg') { set terminal svg size 1200,840 noenhanced background 'white' }
  if (format eq 'png') { set terminal pngcairo size 1200,840 noenhanced }
  set output 'scaling-latency-bf16.'.format
  set multiplot layout 2,2 title 'Latency of a batch against each dimension alone, bf16'
  set title 'tenants'
  set xlabel 'tenants'
  set ylabel 'ms'
  set logscale x 2
  set yrange [0:*]
  set xtics autofreq
  plot 'scaling-latency-bf16.dat' index 0 using 1:2 with linespoints title 'packed', \
       'scaling-latency-bf16.dat' index 0 using 1:3 with linespoints title 'floor'
  set title 'layers'
  set xlabel 'layers'
  set ylabel 'ms'
  set logscale x 2
  set yrange [0:*]
  set xtics autofreq
  plot 'scaling-latency-bf16.dat' index 1 using 1:2 with linespoints title 'packed', \
       'scaling-latency-bf16.dat' index 1 using 1:3 with linespoints title 'floor'
  set title 'hidden'
  set xlabel 'hidden'
  set ylabel 'ms'
  set logscale x 2
  set yrange [0:*]
  set xtics autofreq
  plot 'scaling-latency-bf16.dat' index 2 using 1:2 with linespoints title 'packed', \
       'scaling-latency-bf16.dat' index 2 using 1:3 with linespoints title 'floor'
  set title 'length'
  set xlabel 'length'
  set ylabel 'ms'
  set logscale x 2
  set yrange [0:*]
  set xtics autofreq
  plot 'scaling-latency-bf16.dat' index 3 using 1:2 with linespoints title 'packed', \
       'scaling-latency-bf16.dat' index 3 using 1:3 with linespoints title 'floor'
  unset multiplot
  unset output
}
