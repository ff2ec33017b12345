# Draws mixed-bf16.svg and mixed-bf16.png from mixed-bf16.dat, in this folder: gnuplot mixed-bf16.gp
set datafile missing '?'
set style data histograms
set style histogram clustered gap 1
set style fill solid 0.8 border -1
set boxwidth 0.9
set grid ytics
set key outside bottom center horizontal
do for [format in 'svg png'] {
  if (format eq 'svg') { set terminal svg size 1200,460 noenhanced background 'white' }
  if (format eq 'png') { set terminal pngcairo size 1200,460 noenhanced }
  set output 'mixed-bf16.'.format
  set multiplot layout 1,2 title '64 requests of mixed lengths, by planner, bf16'
  set title ''
  set xlabel ''
  set ylabel 'tokens/s'
  unset logscale x
  set yrange [0:*]
  set xtics autofreq
  plot 'mixed-bf16.dat' index 0 using 2:xtic(1) with histograms title 'naive', \
       'mixed-bf16.dat' index 0 using 3:xtic(1) with histograms title 'floor', \
       'mixed-bf16.dat' index 0 using 4:xtic(1) with histograms title 'turbo', \
       'mixed-bf16.dat' index 0 using 5:xtic(1) with histograms title 'itif', \
       'mixed-bf16.dat' index 0 using 6:xtic(1) with histograms title 'packed'
  set title ''
  set xlabel ''
  set ylabel '% pad'
  unset logscale x
  set yrange [0:*]
  set xtics autofreq
  plot 'mixed-bf16.dat' index 1 using 2:xtic(1) with histograms title 'naive', \
       'mixed-bf16.dat' index 1 using 3:xtic(1) with histograms title 'turbo', \
       'mixed-bf16.dat' index 1 using 4:xtic(1) with histograms title 'itif', \
       'mixed-bf16.dat' index 1 using 5:xtic(1) with histograms title 'packed'
  unset multiplot
  unset output
}
